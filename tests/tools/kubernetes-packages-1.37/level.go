package main

import (
	v1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
)

// Since 1.37 an API server fills in the pod level after mutating webhooks, when it stores a new pod.
func defaultPodLevel(pod *v1.Pod) error {
	stored := &core.Pod{}
	if err := corev1.Convert_v1_Pod_To_core_Pod(pod, stored, nil); err != nil {
		return err
	}
	podutil.DefaultPodLevelResources(stored)
	return corev1.Convert_core_Pod_To_v1_Pod(stored, pod, nil)
}
