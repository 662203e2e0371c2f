package main

import (
	"encoding/json"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
	quotacore "k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"
)

// What a pod counts for. Amounts are whole numbers: thousandths of cpu, units of all else.
type podAnswer struct {
	Requests map[string]int64 `json:"requests"`
	Limits   map[string]int64 `json:"limits"`
	// What the scheduler scores the pod with: thousandths of cpu, bytes of memory.
	Scored [2]int64         `json:"scored"`
	QOS    string           `json:"qos"`
	Quota  map[string]int64 `json:"quota"`
	// The pod as an API server stores it.
	Stored *v1.Pod `json:"stored"`
}

func answerPod(line []byte) (any, error) {
	pod := &v1.Pod{}
	if err := json.Unmarshal(line, pod); err != nil {
		return nil, err
	}
	corev1.SetObjectDefaults_Pod(pod)
	if err := defaultPodLevel(pod); err != nil {
		return nil, err
	}
	options := resourcehelper.PodResourcesOptions{UseStatusResources: true}
	// Sums of quantities may change those that they were made of: each asks a pod of its own.
	usage, err := quotacore.PodUsageFunc(pod.DeepCopy(), clock.RealClock{})
	if err != nil {
		return nil, err
	}
	info, err := framework.NewPodInfo(pod.DeepCopy())
	if err != nil {
		return nil, err
	}
	counted := info.CalculateResource()
	return podAnswer{
		Requests: amounts(resourcehelper.PodRequests(pod.DeepCopy(), options)),
		Limits:   amounts(resourcehelper.PodLimits(pod.DeepCopy(), options)),
		Scored:   [2]int64{counted.Non0CPU, counted.Non0Mem},
		QOS:      string(qos.ComputePodQOS(pod)),
		Quota:    amounts(usage),
		Stored:   pod,
	}, nil
}

func amounts(list v1.ResourceList) map[string]int64 {
	found := map[string]int64{}
	for name, quantity := range list {
		found[string(name)] = amount(name, quantity)
	}
	return found
}

func amount(name v1.ResourceName, quantity resource.Quantity) int64 {
	switch name {
	case v1.ResourceCPU, v1.ResourceRequestsCPU, v1.ResourceLimitsCPU:
		return quantity.MilliValue()
	}
	return quantity.Value()
}
