package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	config "sigs.k8s.io/kueue/apis/config/v1beta2"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/scheduler/flavorassigner"
	"sigs.k8s.io/kueue/pkg/scheduler/preemption"
	"sigs.k8s.io/kueue/pkg/scheduler/preemption/expectations"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	"sigs.k8s.io/kueue/pkg/workload"
)

const flavor = "default"

type queue struct {
	Name    string           `json:"name"`
	Nominal map[string]int64 `json:"nominal"`
	Weight  string           `json:"weight"`
}

type work struct {
	Name     string           `json:"name"`
	Queue    string           `json:"queue"`
	Priority int32            `json:"priority"`
	Requests map[string]int64 `json:"requests"`
	// Seconds since it was admitted.
	Age int64 `json:"age"`
}

// One cohort whose queues lend to each other, workloads that run, and one that comes.
type claimQuestion struct {
	Queues   []queue `json:"queues"`
	Running  []work  `json:"running"`
	Incoming work    `json:"incoming"`
}

// Whether it fits without evictions, who is evicted if not, and what each queue borrows of what can be lent, in permille.
type claimAnswer struct {
	Fits    bool               `json:"fits"`
	Victims []string           `json:"victims"`
	Shares  map[string]float64 `json:"shares"`
}

var client = utiltesting.NewClientBuilder().Build()

func answerClaim(line []byte) (any, error) {
	return answer(line, nil)
}

// As answerClaim, with fair sharing: nobody who takes has more than whom it takes from.
func answerFairClaim(line []byte) (any, error) {
	return answer(line, &config.FairSharing{
		PreemptionStrategies: []config.PreemptionStrategy{config.LessThanOrEqualToFinalShare},
	})
}

func answer(line []byte, fair *config.FairSharing) (any, error) {
	asked := claimQuestion{}
	if err := json.Unmarshal(line, &asked); err != nil {
		return nil, err
	}
	ctx, log := context.Background(), logr.Discard()
	cache := schdcache.New(client)
	cache.AddOrUpdateResourceFlavor(log, &kueue.ResourceFlavor{ObjectMeta: metav1.ObjectMeta{Name: flavor}})
	for _, each := range asked.Queues {
		if err := cache.AddClusterQueue(ctx, each.object()); err != nil {
			return nil, err
		}
	}
	snapshot, err := cache.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	for _, each := range asked.Running {
		snapshot.AddWorkload(each.admitted(now))
	}
	answer := claimAnswer{Victims: []string{}, Shares: map[string]float64{}}
	for _, each := range asked.Queues {
		found := snapshot.ClusterQueue(kueue.ClusterQueueReference(each.Name))
		if found == nil {
			return nil, fmt.Errorf("queue %s is not active", each.Name)
		}
		share := found.DominantResourceShare()
		answer.Shares[each.Name] = share.PreciseWeightedShare()
	}
	incoming := workload.NewInfo(asked.Incoming.object(now))
	incoming.ClusterQueue = kueue.ClusterQueueReference(asked.Incoming.Queue)
	assignment := asked.Incoming.assignment(asked.lacking())
	usage := workload.Usage{Quota: assignment.TotalRequestsFor(incoming)}
	if answer.Fits = snapshot.ClusterQueue(incoming.ClusterQueue).Fits(usage); answer.Fits {
		return answer, nil
	}
	preemptor := preemption.New(client, workload.Ordering{}, record.NewFakeRecorder(0), fair, false, clock.RealClock{}, nil,
		expectations.New(), nil)
	for _, target := range preemptor.GetTargets(log, *incoming, assignment, snapshot) {
		answer.Victims = append(answer.Victims, target.WorkloadInfo.Obj.Name)
	}
	return answer, nil
}

func (q queue) object() *kueue.ClusterQueue {
	weight := resource.MustParse(q.Weight)
	quotas := kueue.FlavorQuotas{Name: flavor}
	group := kueue.ResourceGroup{}
	for name, amount := range q.Nominal {
		group.CoveredResources = append(group.CoveredResources, corev1.ResourceName(name))
		quotas.Resources = append(quotas.Resources, kueue.ResourceQuota{
			Name: corev1.ResourceName(name), NominalQuota: *resource.NewQuantity(amount, resource.DecimalSI),
		})
	}
	group.Flavors = []kueue.FlavorQuotas{quotas}
	return &kueue.ClusterQueue{
		ObjectMeta: metav1.ObjectMeta{Name: q.Name},
		Spec: kueue.ClusterQueueSpec{
			CohortName:        "all",
			FairSharing:       &kueue.FairSharing{Weight: &weight},
			NamespaceSelector: &metav1.LabelSelector{},
			ResourceGroups:    []kueue.ResourceGroup{group},
			Preemption: &kueue.ClusterQueuePreemption{
				ReclaimWithinCohort: kueue.PreemptionPolicyAny,
				BorrowWithinCohort:  &kueue.BorrowWithinCohort{Policy: kueue.BorrowWithinCohortPolicyNever},
				WithinClusterQueue:  kueue.PreemptionPolicyNever,
			},
		},
	}
}

func (w work) amounts() corev1.ResourceList {
	found := corev1.ResourceList{}
	for name, amount := range w.Requests {
		found[corev1.ResourceName(name)] = *resource.NewQuantity(amount, resource.DecimalSI)
	}
	return found
}

func (w work) object(now time.Time) *kueue.Workload {
	container := corev1.Container{Name: "c", Resources: corev1.ResourceRequirements{Requests: w.amounts()}}
	return &kueue.Workload{
		ObjectMeta: metav1.ObjectMeta{
			Name: w.Name, Namespace: "t", UID: types.UID(w.Name),
			CreationTimestamp: metav1.NewTime(now.Add(-time.Duration(w.Age) * time.Second)),
		},
		Spec: kueue.WorkloadSpec{
			Priority: &w.Priority,
			PodSets: []kueue.PodSet{{
				Name: kueue.DefaultPodSetName, Count: 1,
				Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{container}}},
			}},
		},
	}
}

func (w work) admitted(now time.Time) *workload.Info {
	found := w.object(now)
	flavors := map[corev1.ResourceName]kueue.ResourceFlavorReference{}
	for name := range w.amounts() {
		flavors[name] = flavor
	}
	one := int32(1)
	found.Status.Admission = &kueue.Admission{
		ClusterQueue: kueue.ClusterQueueReference(w.Queue),
		PodSetAssignments: []kueue.PodSetAssignment{{
			Name: kueue.DefaultPodSetName, Flavors: flavors, ResourceUsage: w.amounts(), Count: &one,
		}},
	}
	found.Status.Conditions = []metav1.Condition{{
		Type: kueue.WorkloadQuotaReserved, Status: metav1.ConditionTrue, LastTransitionTime: found.CreationTimestamp,
	}}
	return workload.NewInfo(found)
}

// The resources of which the cohort has too little left for the work that comes.
func (q claimQuestion) lacking() map[string]bool {
	left := map[string]int64{}
	for _, each := range q.Queues {
		for name, amount := range each.Nominal {
			left[name] += amount
		}
	}
	for _, each := range q.Running {
		for name, amount := range each.Requests {
			left[name] -= amount
		}
	}
	found := map[string]bool{}
	for name, amount := range q.Incoming.Requests {
		found[name] = amount > left[name]
	}
	return found
}

func (w work) assignment(lacking map[string]bool) flavorassigner.Assignment {
	chosen := flavorassigner.ResourceAssignment{}
	for name := range w.amounts() {
		mode := flavorassigner.Fit
		if lacking[string(name)] {
			mode = flavorassigner.Preempt
		}
		chosen[name] = &flavorassigner.FlavorAssignment{Name: flavor, Mode: mode}
	}
	return flavorassigner.Assignment{PodSets: []flavorassigner.PodSetAssignment{{
		Name: kueue.DefaultPodSetName, Flavors: chosen, Count: 1,
	}}}
}
