#!/bin/sh
# What kube-scheduler counts for a pod whose RuntimeClass has an overhead. Until its kubelet has reported, that is its
# requests and the overhead. Then the overhead counts twice, although nothing was resized: since 1.36 the kubelet writes
# status.allocatedResources and status.resources, with the overhead in them (PodRequests, called as below); the scheduler
# takes the larger of these and the spec, and adds the overhead. In 1.36 this concerns pods with requests of the pod
# level, in 1.37 all pods with an overhead.
#
# Seen with k8s.io/component-helpers v0.37.2 (Kubernetes 1.37), with the options that kubelet and kube-scheduler pass
# while InPlacePodLevelResourcesVerticalScaling is on, as it is by default.
# Needs Go 1.25 or newer. Prints what it sees, and fails if that is something else than below.
set -eu

EXPECTED='requests of the container: 1500m before the report of the kubelet, 2 after it
requests of the pod level: 1500m before the report of the kubelet, 2 after it'

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat > main.go <<'GO'
package main

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	helpers "k8s.io/component-helpers/resource"
)

func cpu(amount string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceCPU: resource.MustParse(amount)}
}

// As pkg/scheduler/framework/types.go calls it.
func scheduler(pod *v1.Pod) string {
	found := helpers.PodRequests(pod, helpers.PodResourcesOptions{
		UseStatusResources: true,
		InPlacePodLevelResourcesVerticalScalingEnabled: true,
	})
	return found.Cpu().String()
}

// As pkg/kubelet/kubelet_pods.go calls it for a pod that is not running yet; the cgroup that it reads later is made of the
// same amounts.
func report(pod *v1.Pod) {
	amounts := helpers.PodRequests(pod, helpers.PodResourcesOptions{})
	pod.Status.AllocatedResources = amounts
	pod.Status.Resources = &v1.ResourceRequirements{Requests: amounts.DeepCopy()}
}

func told(what string, pod *v1.Pod) {
	before := scheduler(pod)
	report(pod)
	fmt.Printf("%s: %s before the report of the kubelet, %s after it\n", what, before, scheduler(pod))
}

func main() {
	container := v1.Container{Name: "c", Resources: v1.ResourceRequirements{Requests: cpu("1")}}
	spec := v1.PodSpec{Containers: []v1.Container{container}, Overhead: cpu("500m")}
	told("requests of the container", &v1.Pod{Spec: spec})
	spec.Resources = &v1.ResourceRequirements{Requests: cpu("1")}
	told("requests of the pod level", &v1.Pod{Spec: spec})
}
GO
cat > go.mod <<'MOD'
module finding

go 1.25.0

require (
	k8s.io/api v0.37.2
	k8s.io/apimachinery v0.37.2
	k8s.io/component-helpers v0.37.2
)
MOD
go mod tidy > tidy.log 2>&1 || { cat tidy.log; exit 1; }
seen=$(go run .)
echo "$seen"
[ "$seen" = "$EXPECTED" ] || { echo "changed: this was expected"; echo "$EXPECTED"; exit 1; }
