package main

import (
	"io"

	"k8s.io/klog/v2"
)

// The packages log what they decide, and an answer is one line.
func init() {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
}
