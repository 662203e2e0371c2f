// Package main answers questions with the code of another project: a line of JSON in, a line of JSON out.
//
//	PROGRAM SUBJECT
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) != 2 || answers[os.Args[1]] == nil {
		subjects := slices.Sorted(maps.Keys(answers))
		fmt.Fprintf(os.Stderr, "usage: %s %s\n", filepath.Base(os.Args[0]), strings.Join(subjects, "|"))
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
