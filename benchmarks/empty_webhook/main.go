// The least that a webhook can do: it reads a review and lets it pass, or sets a pod's schedulerName.
// What it adds to the creation of a pod is the API server's own share of two calls.
//
//	empty-webhook CERTIFICATE KEY
//
// listens on a free port of the loopback and prints it.
package main

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
)

type review struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Request    *request  `json:"request,omitempty"`
	Response   *response `json:"response,omitempty"`
}

type request struct {
	UID string `json:"uid"`
}

type response struct {
	UID       string `json:"uid"`
	Allowed   bool   `json:"allowed"`
	PatchType string `json:"patchType,omitempty"`
	Patch     []byte `json:"patch,omitempty"`
}

var schedulerName = []byte(`[{"op":"replace","path":"/spec/schedulerName","value":"muster-scheduler"}]`)

func answer(patchType string, patch []byte) http.HandlerFunc {
	return func(out http.ResponseWriter, in *http.Request) {
		var asked review
		if err := json.NewDecoder(in.Body).Decode(&asked); err != nil || asked.Request == nil {
			http.Error(out, "not a review", http.StatusBadRequest)
			return
		}
		said := response{UID: asked.Request.UID, Allowed: true, PatchType: patchType, Patch: patch}
		out.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(out).Encode(review{APIVersion: asked.APIVersion, Kind: asked.Kind, Response: &said})
	}
}

func main() {
	http.HandleFunc("/mutate", answer("JSONPatch", schedulerName))
	http.HandleFunc("/validate", answer("", nil))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	// HTTP/1.1 only, as webhooks behind a Service are called.
	only := map[string]func(*http.Server, *tls.Conn, http.Handler){}
	server := &http.Server{TLSNextProto: only}
	log.Fatal(server.ServeTLS(listener, os.Args[1], os.Args[2]))
}
