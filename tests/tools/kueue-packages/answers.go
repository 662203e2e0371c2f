package main

import (
	"io"

	"k8s.io/klog/v2"
)

func init() {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
}

// Each answers one line. An error is an answer, too: {"error": "..."}.
var answers = map[string]func(line []byte) (any, error){
	"claims": answerClaim,
}
