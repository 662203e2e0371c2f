// Package main answers questions with Koordinator's own code: a line of JSON in, a line of JSON out.
//
//	koordinator-packages loads
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"k8s.io/klog/v2"
)

// Each answers one line. An error is an answer, too: {"error": "..."}.
var answers = map[string]func(line []byte) (any, error){
	"loads": answerLoad,
}

func main() {
	if len(os.Args) != 2 || answers[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: koordinator-packages loads")
		os.Exit(2)
	}
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	if err := run(answers[os.Args[1]]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(answer func(line []byte) (any, error)) error {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	encoder := json.NewEncoder(out)
	for lines.Scan() {
		found, err := answer(lines.Bytes())
		if err != nil {
			found = map[string]string{"error": err.Error()}
		}
		if err := encoder.Encode(found); err != nil {
			return err
		}
	}
	return lines.Err()
}
