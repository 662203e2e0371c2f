#!/bin/sh
# What Kubernetes' own libraries make of patches. Three things surprise whoever knows the RFCs and the documentation:
#
# 1. JSON patch: RFC 6902 says that the target of `replace` and the source of `copy` must exist. The library of
#    kube-apiserver takes a member that is missing as null: `replace` adds it, `copy` copies null, and `test`
#    without a value passes. An index may be negative.
# 2. Strategic merge: an element that a list does not have yet comes first, not last. Where the patch names known
#    elements, too, it stands where the patch has it.
# 3. Strategic merge: ports merge by containerPort alone, so a patch that adds 53/UDP beside 53/TCP turns the TCP
#    port into a UDP port. (Server-side apply has the protocol in the key.)
#
# Seen with gopkg.in/evanphx/json-patch.v4 v4.13.0 and k8s.io/apimachinery v0.37.2 (Kubernetes 1.37).
# Needs Go 1.25 or newer. Prints what it sees, and fails if that is something else than below.
set -eu

EXPECTED='replace of a missing member: {"a":"1","b":"x"}
copy of a missing member: {"a":"1","b":null}
test of a missing member: {"a":"1"}
add at -1: {"l":["x","y","z"]}
a new container: [new a b]
a new container after a known one: [a new b]
53/UDP beside 53/TCP: 53/UDP'

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat > main.go <<'GO'
package main

import (
	"encoding/json"
	"fmt"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func patched(what, document, operations string) {
	patch, err := jsonpatch.DecodePatch([]byte(operations))
	must(err)
	result, err := patch.Apply([]byte(document))
	must(err)
	fmt.Printf("%s: %s\n", what, result)
}

func merged(pod, patch string) corev1.PodSpec {
	result, err := strategicpatch.StrategicMergePatch([]byte(pod), []byte(patch), corev1.Pod{})
	must(err)
	var found corev1.Pod
	must(json.Unmarshal(result, &found))
	return found.Spec
}

func names(what string, spec corev1.PodSpec) {
	found := []string{}
	for _, container := range spec.Containers {
		found = append(found, container.Name)
	}
	fmt.Printf("%s: %v\n", what, found)
}

func main() {
	patched("replace of a missing member", `{"a":"1"}`, `[{"op":"replace","path":"/b","value":"x"}]`)
	patched("copy of a missing member", `{"a":"1"}`, `[{"op":"copy","from":"/none","path":"/b"}]`)
	patched("test of a missing member", `{"a":"1"}`, `[{"op":"test","path":"/none"}]`)
	patched("add at -1", `{"l":["x","y"]}`, `[{"op":"add","path":"/l/-1","value":"z"}]`)

	pod := `{"spec":{"containers":[{"name":"a"},{"name":"b"}]}}`
	names("a new container", merged(pod, `{"spec":{"containers":[{"name":"new"}]}}`))
	names("a new container after a known one", merged(pod, `{"spec":{"containers":[{"name":"a"},{"name":"new"}]}}`))

	dns := `{"spec":{"containers":[{"name":"a","ports":[{"containerPort":53,"protocol":"TCP"}]}]}}`
	udp := `{"spec":{"containers":[{"name":"a","ports":[{"containerPort":53,"protocol":"UDP"}]}]}}`
	fmt.Print("53/UDP beside 53/TCP:")
	for _, port := range merged(dns, udp).Containers[0].Ports {
		fmt.Printf(" %d/%s", port.ContainerPort, port.Protocol)
	}
	fmt.Println()
}
GO
cat > go.mod <<'MOD'
module finding

go 1.25.0

require (
	gopkg.in/evanphx/json-patch.v4 v4.13.0
	k8s.io/api v0.37.2
	k8s.io/apimachinery v0.37.2
)
MOD
go mod tidy > tidy.log 2>&1 || { cat tidy.log; exit 1; }
seen=$(go run .)
echo "$seen"
[ "$seen" = "$EXPECTED" ] || { echo "changed: this was expected"; echo "$EXPECTED"; exit 1; }
