#!/bin/sh
# How quantities behave in rules of CRDs and admission policies (CEL). Two things surprise whoever writes a rule:
#
# 1. Whether a quantity is an integer is asked of how it is written, not of its value: `1.5Gi` equals `1536Mi`, of
#    which isInteger() is true, but its own is false, and asInteger() is an error. So it is with `2.0` and `2000m`.
# 2. Equality has sides: a sum or a difference may stand on the left of ==, where it is compared, but on the right
#    it is an error at run time, `no such overload`, though the rule compiles. compareTo takes it on both sides.
#
# Seen with k8s.io/apiserver v0.37.2 (Kubernetes 1.37), whose environment every such rule is compiled in.
# Needs Go 1.25 or newer. Prints what it sees, and fails if that is something else than below.
set -eu

VERSION=v0.37.2
EXPECTED="quantity('1.5Gi') == quantity('1536Mi'): true
quantity('1536Mi').isInteger(): true
quantity('1.5Gi').isInteger(): false
quantity('2.0').isInteger(): false
quantity('2000m').isInteger(): false
quantity('1.5Gi').asInteger(): error: cannot convert value to integer
quantity('1').add(quantity('2')) == quantity('3'): true
quantity('3') == quantity('1').add(quantity('2')): error: no such overload
quantity('3').sub(quantity('1')) == quantity('1').add(quantity('1')): error: no such overload
quantity('3').compareTo(quantity('1').add(quantity('2'))): 0"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat > main.go <<'GO'
package main

import (
	"bufio"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/environment"
)

// Each line of the input is an expression.
func main() {
	stored := environment.MustBaseEnvSet(version.MajorMinor(1, 37)).StoredExpressionsEnv()
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		ast, issues := stored.Compile(lines.Text())
		if issues.Err() != nil {
			panic(issues.Err())
		}
		program, err := stored.Program(ast)
		if err != nil {
			panic(err)
		}
		if value, _, err := program.Eval(map[string]any{}); err != nil {
			fmt.Printf("%s: error: %v\n", lines.Text(), err)
		} else {
			fmt.Printf("%s: %v\n", lines.Text(), value.Value())
		}
	}
}
GO
cat > go.mod <<MOD
module finding

go 1.25.0

require (
	k8s.io/apimachinery $VERSION
	k8s.io/apiserver $VERSION
)
MOD
go mod tidy > tidy.log 2>&1 || { cat tidy.log; exit 1; }
seen=$(echo "$EXPECTED" | sed 's/: [a-z0-9].*$//' | go run .)
echo "$seen"
[ "$seen" = "$EXPECTED" ] || { echo "changed: this was expected"; echo "$EXPECTED"; exit 1; }
