#!/bin/sh
# What a client of Kubernetes makes of a kubeconfig whose server has no TLS. The token, the password and the exec plugin
# of its user are left out without a word, and so is a token given as a flag: requests are anonymous. The user to
# act as is kept, so the server sees an anonymous request that asks to act as somebody. And flags replace whom a
# kubeconfig acts as field by field: --as alone keeps the groups of the kubeconfig for another user.
#
# Seen with k8s.io/client-go v0.37.2 (Kubernetes 1.37), which kubectl uses.
# Needs Go 1.25 or newer. Prints what it sees, and fails if that is something else than below.
set -eu

EXPECTED='https, token: token "secret", as "bob" [dev]
http, token: token "", as "bob" [dev]
http, token as a flag: token "", as "bob" [dev]
https, another user as a flag: token "secret", as "eve" [dev]'

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat > main.go <<'GO'
package main

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

func told(what, server string, overrides clientcmd.ConfigOverrides) {
	config := api.NewConfig()
	config.Clusters["c"] = &api.Cluster{Server: server}
	config.AuthInfos["u"] = &api.AuthInfo{Token: "secret", Impersonate: "bob", ImpersonateGroups: []string{"dev"}}
	config.Contexts["x"] = &api.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	found, err := clientcmd.NewDefaultClientConfig(*config, &overrides).ClientConfig()
	if err != nil {
		panic(err)
	}
	acting := found.Impersonate
	fmt.Printf("%s: token %q, as %q %v\n", what, found.BearerToken, acting.UserName, acting.Groups)
}

func main() {
	told("https, token", "https://127.0.0.1:6443", clientcmd.ConfigOverrides{})
	told("http, token", "http://127.0.0.1:8080", clientcmd.ConfigOverrides{})
	given := clientcmd.ConfigOverrides{AuthInfo: api.AuthInfo{Token: "given"}}
	told("http, token as a flag", "http://127.0.0.1:8080", given)
	other := clientcmd.ConfigOverrides{AuthInfo: api.AuthInfo{Impersonate: "eve"}}
	told("https, another user as a flag", "https://127.0.0.1:6443", other)
}
GO
cat > go.mod <<'MOD'
module finding

go 1.25.0

require k8s.io/client-go v0.37.2
MOD
go mod tidy > tidy.log 2>&1 || { cat tidy.log; exit 1; }
seen=$(go run .)
echo "$seen"
[ "$seen" = "$EXPECTED" ] || { echo "changed: this was expected"; echo "$EXPECTED"; exit 1; }
