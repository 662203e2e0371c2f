package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
)

func init() {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
}

type plugin struct {
	Name   string `json:"name"`
	Weight int32  `json:"weight"`
}

// What becomes of a configuration: the plugins of each profile at each point, in their order.
type configurationAnswer struct {
	Profiles map[string]map[string][]plugin `json:"profiles"`
}

// Decoded with defaults, validated, and given to a scheduler that never runs, as kube-scheduler does at its start.
func answerConfiguration(line []byte) (any, error) {
	var text string
	if err := json.Unmarshal(line, &text); err != nil {
		return nil, err
	}
	object, kind, err := scheme.Codecs.UniversalDecoder().Decode([]byte(text), nil, nil)
	if err != nil {
		return nil, err
	}
	found, ok := object.(*config.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("couldn't decode as KubeSchedulerConfiguration, got %s", kind)
	}
	found.TypeMeta.APIVersion = kind.GroupVersion().String()
	if err := validation.ValidateKubeSchedulerConfiguration(found); err != nil {
		return nil, err
	}
	return started(found)
}

func started(found *config.KubeSchedulerConfiguration) (any, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// Nobody listens there, and nobody asks.
	server := &rest.Config{Host: "http://127.0.0.1:1"}
	client, err := kubernetes.NewForConfig(server)
	if err != nil {
		return nil, err
	}
	answer := configurationAnswer{map[string]map[string][]plugin{}}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	built, err := scheduler.New(ctx, client, informers.NewSharedInformerFactory(client, 0),
		dynamicinformer.DynamicSharedInformerFactory(nil),
		func(name string) events.EventRecorderLogger { return broadcaster.NewRecorder(nil, name) },
		scheduler.WithComponentConfigVersion(found.TypeMeta.APIVersion),
		scheduler.WithKubeConfig(server),
		scheduler.WithProfiles(found.Profiles...),
		scheduler.WithExtenders(found.Extenders...),
		scheduler.WithParallelism(found.Parallelism),
		scheduler.WithPercentageOfNodesToScore(found.PercentageOfNodesToScore),
	)
	if err != nil {
		return nil, err
	}
	for name, framework := range built.Profiles {
		answer.Profiles[name] = points(framework.ListPlugins())
	}
	return answer, nil
}

func points(plugins *config.Plugins) map[string][]plugin {
	sets := map[string]config.PluginSet{
		"preEnqueue": plugins.PreEnqueue, "queueSort": plugins.QueueSort, "preFilter": plugins.PreFilter,
		"filter": plugins.Filter, "postFilter": plugins.PostFilter, "preScore": plugins.PreScore,
		"score": plugins.Score, "reserve": plugins.Reserve, "permit": plugins.Permit,
		"preBind": plugins.PreBind, "bind": plugins.Bind, "postBind": plugins.PostBind,
	}
	found := map[string][]plugin{}
	for point, set := range sets {
		found[point] = []plugin{}
		for _, enabled := range set.Enabled {
			found[point] = append(found[point], plugin{enabled.Name, enabled.Weight})
		}
	}
	return found
}
