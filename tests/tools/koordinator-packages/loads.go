package main

import (
	"context"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwktype "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	slov1alpha1 "github.com/koordinator-sh/koordinator/apis/slo/v1alpha1"
	"github.com/koordinator-sh/koordinator/pkg/scheduler/apis/config"
	configv1 "github.com/koordinator-sh/koordinator/pkg/scheduler/apis/config/v1"
	"github.com/koordinator-sh/koordinator/pkg/scheduler/plugins/loadaware"
)

// A node with its report and its pods, and a pod that comes. All moments are relative to `now`.
type loadQuestion struct {
	Args   configv1.LoadAwareSchedulingArgs `json:"args"`
	Node   *corev1.Node                     `json:"node"`
	Metric *slov1alpha1.NodeMetric          `json:"metric"`
	Pods   []*corev1.Pod                    `json:"pods"`
	Pod    *corev1.Pod                      `json:"pod"`
	Now    metav1.Time                      `json:"now"`
}

// Why the node is refused, empty if it is not, and its score.
type loadAnswer struct {
	Refused string `json:"refused"`
	Score   int64  `json:"score"`
}

func answerLoad(line []byte) (any, error) {
	asked := loadQuestion{}
	if err := json.Unmarshal(line, &asked); err != nil {
		return nil, err
	}
	asked.shift()
	configv1.SetDefaults_LoadAwareSchedulingArgs(&asked.Args)
	args := &config.LoadAwareSchedulingArgs{}
	if err := configv1.Convert_v1_LoadAwareSchedulingArgs_To_config_LoadAwareSchedulingArgs(&asked.Args, args, nil); err != nil {
		return nil, err
	}
	node := framework.NewNodeInfo(asked.Pods...)
	node.SetNode(asked.Node)
	ctx := context.Background()
	built, err := loadaware.New(ctx, args, newHandle(node, asked.Metric, asked.Pods))
	if err != nil {
		return nil, err
	}
	plugin := built.(*loadaware.Plugin)
	state := framework.NewCycleState()
	if _, status := plugin.PreFilter(ctx, state, asked.Pod, []fwktype.NodeInfo{node}); !status.IsSuccess() {
		return nil, status.AsError()
	}
	answer := loadAnswer{Refused: plugin.Filter(ctx, state, asked.Pod, node).Message()}
	score, status := plugin.Score(ctx, state, asked.Pod, node)
	if !status.IsSuccess() {
		return nil, status.AsError()
	}
	answer.Score = score
	return answer, nil
}

// Koordinator reads the clock, so that all moments are moved to where its clock is.
func (asked *loadQuestion) shift() {
	by := time.Since(asked.Now.Time)
	for _, pod := range append(asked.Pods, asked.Pod) {
		for i := range pod.Status.Conditions {
			move(&pod.Status.Conditions[i].LastTransitionTime, by)
		}
	}
	if asked.Metric != nil {
		move(asked.Metric.Status.UpdateTime, by)
	}
}

func move(moment *metav1.Time, by time.Duration) {
	if moment != nil && !moment.IsZero() {
		moment.Time = moment.Add(by)
	}
}
