package main

import (
	"encoding/json"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	quota "k8s.io/apiserver/pkg/quota/v1"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	quotacore "k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	clocktesting "k8s.io/utils/clock/testing"
)

// A request in a namespace with quotas and objects, at a moment.
type quotaQuestion struct {
	Storage     string             `json:"storage"`
	Operation   string             `json:"operation"`
	Subresource string             `json:"subresource"`
	Object      json.RawMessage    `json:"object"`
	Old         json.RawMessage    `json:"old"`
	Existing    []json.RawMessage  `json:"existing"`
	Quotas      []v1.ResourceQuota `json:"quotas"`
	Now         time.Time          `json:"now"`
}

// What each quota counts before and after, why the request is refused, and the objects as an API server stores them.
type quotaAnswer struct {
	Used     []map[string]int64 `json:"used"`
	After    []map[string]int64 `json:"after"`
	Refused  string             `json:"refused"`
	Object   runtime.Object     `json:"object"`
	Old      runtime.Object     `json:"old"`
	Existing []runtime.Object   `json:"existing"`
}

func answerQuota(line []byte) (any, error) {
	asked := quotaQuestion{}
	if err := json.Unmarshal(line, &asked); err != nil {
		return nil, err
	}
	answer := quotaAnswer{Existing: []runtime.Object{}}
	for _, raw := range asked.Existing {
		object, err := stored(asked.Storage, raw)
		if err != nil {
			return nil, err
		}
		answer.Existing = append(answer.Existing, object)
	}
	var err error
	if answer.Object, err = stored(asked.Storage, asked.Object); err != nil {
		return nil, err
	}
	var old runtime.Object
	if string(asked.Old) != "null" {
		if old, err = stored(asked.Storage, asked.Old); err != nil {
			return nil, err
		}
		answer.Old = old
	}
	evaluator := evaluatorOf(asked.Storage, asked.Now)
	for i := range asked.Quotas {
		if err := count(&asked.Quotas[i], answer.Existing, evaluator); err != nil {
			return nil, err
		}
		answer.Used = append(answer.Used, amounts(asked.Quotas[i].Status.Used))
	}
	if old != nil {
		old = old.DeepCopyObject()
	}
	group := v1.SchemeGroupVersion
	request := admission.NewAttributesRecord(answer.Object.DeepCopyObject(), old, group.WithKind(""), "t", "p",
		group.WithResource(asked.Storage), asked.Subresource, admission.Operation(asked.Operation), nil, false, nil)
	after, err := resourcequota.CheckRequest(asked.Quotas, request, evaluator, nil)
	if err != nil {
		answer.Refused = err.Error()
		after = asked.Quotas
	}
	for _, found := range after {
		answer.After = append(answer.After, amounts(found.Status.Used))
	}
	return answer, nil
}

func evaluatorOf(storage string, now time.Time) quota.Evaluator {
	switch storage {
	case "pods":
		return quotacore.NewPodEvaluator(nil, clocktesting.NewFakeClock(now))
	case "persistentvolumeclaims":
		return quotacore.NewPersistentVolumeClaimEvaluator(nil)
	}
	return quotacore.NewServiceEvaluator(nil)
}

// As the controller of quotas counts what is there.
func count(found *v1.ResourceQuota, existing []runtime.Object, evaluator quota.Evaluator) error {
	found.Status.Hard = found.Spec.Hard
	names := quota.ResourceNames(found.Spec.Hard)
	used := v1.ResourceList{}
	for _, name := range names {
		used[name] = resource.Quantity{Format: resource.DecimalSI}
	}
	for _, object := range existing {
		// Sums of quantities may change those that they were made of.
		object = object.DeepCopyObject()
		matches, err := evaluator.Matches(found, object)
		if err != nil {
			return err
		}
		if !matches {
			continue
		}
		usage, err := evaluator.Usage(object)
		if err != nil {
			return err
		}
		used = quota.Add(used, quota.Mask(usage, names))
	}
	found.Status.Used = used
	return nil
}

func stored(storage string, raw json.RawMessage) (runtime.Object, error) {
	switch storage {
	case "pods":
		pod := &v1.Pod{}
		if err := json.Unmarshal(raw, pod); err != nil {
			return nil, err
		}
		corev1.SetObjectDefaults_Pod(pod)
		return pod, defaultPodLevel(pod)
	case "persistentvolumeclaims":
		claim := &v1.PersistentVolumeClaim{}
		if err := json.Unmarshal(raw, claim); err != nil {
			return nil, err
		}
		corev1.SetObjectDefaults_PersistentVolumeClaim(claim)
		return claim, nil
	case "services":
		service := &v1.Service{}
		if err := json.Unmarshal(raw, service); err != nil {
			return nil, err
		}
		corev1.SetObjectDefaults_Service(service)
		return service, nil
	}
	return nil, fmt.Errorf("no evaluator of %q is asked here", storage)
}
