#!/bin/sh
# What an API server of Kubernetes makes of grace periods. Two things surprise whoever reads deletionTimestamp as
# the moment at which a pod will be gone:
#
# 1. A second deletion with less time counts from the first one, not from now: 30 s, asked for 10 s after a deletion
#    with 3600 s, leave 20. Where that time is over already, the pod ends now, and deletionGracePeriodSeconds is 1,
#    not what was asked for. A later deletion with more time changes nothing.
# 2. A grace period that is longer than an int64 counts in nanoseconds (about 292 years) is accepted, and
#    deletionTimestamp wraps around: with 2^63 - 1 seconds it lies one second before the deletion.
#    deletionGracePeriodSeconds tells the true number.
#
# Seen with k8s.io/apiserver v0.37.2 (Kubernetes 1.37), whose code every delete request of a pod goes through.
# Needs Go 1.25 or newer. Prints what it sees, and fails if that is something else than below.
set -eu

VERSION=v0.37.2
EXPECTED='first deletion, 3600 s: ends 3600 s after it, deletionGracePeriodSeconds 3600
10 s later, 30 s: ends 30 s after the first deletion, deletionGracePeriodSeconds 30
then 600 s: ends 30 s after the first deletion, deletionGracePeriodSeconds 30
100 s later, 30 s: ends 100 s after the first deletion, deletionGracePeriodSeconds 1
first deletion, 9223372036854775807 s: ends -1 s after it, deletionGracePeriodSeconds 9223372036854775807'

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat > main.go <<'GO'
package main

import (
	"context"
	"fmt"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
)

// graceful lets every deletion have the time that it asks for, as pods that run do.
type graceful struct{ runtime.ObjectTyper }

func (graceful) CheckGracefulDelete(_ context.Context, _ runtime.Object, _ *metav1.DeleteOptions) bool {
	return true
}

func remove(pod *corev1.Pod, strategy graceful, seconds int64) {
	options := metav1.NewDeleteOptions(seconds)
	if _, _, err := rest.BeforeDelete(strategy, context.Background(), pod, options); err != nil {
		panic(err)
	}
}

func told(what string, pod *corev1.Pod, first time.Time, since string) {
	ends := math.Round(pod.DeletionTimestamp.Sub(first).Seconds())
	fmt.Printf("%s: ends %.0f s after %s, deletionGracePeriodSeconds %d\n", what, ends, since, *pod.DeletionGracePeriodSeconds)
}

// deletedBefore makes a pod as it is some time after its deletion with 3600 s of grace; gives that moment.
func deletedBefore(pod *corev1.Pod, past time.Duration) time.Time {
	first, seconds := time.Now().Add(-past), int64(3600)
	pod.DeletionTimestamp = &metav1.Time{Time: first.Add(time.Hour)}
	pod.DeletionGracePeriodSeconds = &seconds
	return first
}

func main() {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		panic(err)
	}
	strategy := graceful{scheme}

	pod, first := &corev1.Pod{}, time.Now()
	pod.Name = "runs"
	remove(pod, strategy, 3600)
	told("first deletion, 3600 s", pod, first, "it")

	first = deletedBefore(pod, 10*time.Second)
	remove(pod, strategy, 30)
	told("10 s later, 30 s", pod, first, "the first deletion")
	remove(pod, strategy, 600)
	told("then 600 s", pod, first, "the first deletion")

	first = deletedBefore(pod, 100*time.Second)
	remove(pod, strategy, 30)
	told("100 s later, 30 s", pod, first, "the first deletion")

	pod, first = &corev1.Pod{}, time.Now()
	pod.Name = "runs-long"
	remove(pod, strategy, math.MaxInt64)
	told("first deletion, 9223372036854775807 s", pod, first, "it")
}
GO
cat > go.mod <<MOD
module finding

go 1.25.0

require (
	k8s.io/api $VERSION
	k8s.io/apimachinery $VERSION
	k8s.io/apiserver $VERSION
)
MOD
go mod tidy > tidy.log 2>&1 || { cat tidy.log; exit 1; }
seen=$(go run .)
echo "$seen"
[ "$seen" = "$EXPECTED" ] || { echo "changed: this was expected"; echo "$EXPECTED"; exit 1; }
