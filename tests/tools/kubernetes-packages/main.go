// Package main answers questions with Kubernetes' own code: a line of JSON in, a line of JSON out.
//
//	kubernetes-packages pods|quantities|quotas|configurations|rules
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

// Each answers one line. An error is an answer, too: {"error": "..."}.
var answers = map[string]func(line []byte) (any, error){
	"pods":           answerPod,
	"quantities":     answerQuantity,
	"quotas":         answerQuota,
	"configurations": answerConfiguration,
	"rules":          answerRule,
}

func main() {
	if len(os.Args) != 2 || answers[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: kubernetes-packages pods|quantities|quotas|configurations|rules")
		os.Exit(2)
	}
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
