package main

import (
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/core"
	informersv1 "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
	fwktype "k8s.io/kube-scheduler/framework"

	slov1alpha1 "github.com/koordinator-sh/koordinator/apis/slo/v1alpha1"
	koordinatorinformers "github.com/koordinator-sh/koordinator/pkg/client/informers/externalversions"
	"github.com/koordinator-sh/koordinator/pkg/client/informers/externalversions/slo"
	informersv1alpha1 "github.com/koordinator-sh/koordinator/pkg/client/informers/externalversions/slo/v1alpha1"
	"github.com/koordinator-sh/koordinator/pkg/scheduler/frameworkext"
)

// What the plugin asks its scheduler for: pods and reports that are there already, and one node. All else is nil.
type handle struct {
	frameworkext.ExtendedHandle
	node    fwktype.NodeInfo
	metrics cache.SharedIndexInformer
	pods    cache.SharedIndexInformer
}

func newHandle(node fwktype.NodeInfo, metric *slov1alpha1.NodeMetric, pods []*corev1.Pod) *handle {
	found := &handle{node: node, metrics: newInformer(), pods: newInformer()}
	if metric != nil {
		_ = found.metrics.GetStore().Add(metric)
	}
	for _, pod := range pods {
		_ = found.pods.GetStore().Add(pod)
	}
	return found
}

func (h *handle) SharedInformerFactory() informers.SharedInformerFactory {
	return podFactory{of: h.pods}
}

func (h *handle) KoordinatorSharedInformerFactory() koordinatorinformers.SharedInformerFactory {
	return metricFactory{of: h.metrics}
}

func (h *handle) RegisterForgetPodHandler(frameworkext.ForgetPodHandler) {}

func (h *handle) SnapshotSharedLister() fwktype.SharedLister { return lister{node: h.node} }

type lister struct {
	fwktype.SharedLister
	fwktype.NodeInfoLister
	node fwktype.NodeInfo
}

func (l lister) NodeInfos() fwktype.NodeInfoLister { return l }

func (l lister) Get(string) (fwktype.NodeInfo, error) { return l.node, nil }

// An informer that has read everything: nothing is started, and nobody is told of changes.
type informer struct {
	cache.SharedIndexInformer
	store cache.Store
}

func newInformer() cache.SharedIndexInformer {
	return informer{store: cache.NewStore(cache.MetaNamespaceKeyFunc)}
}

func (i informer) GetStore() cache.Store { return i.store }

func (i informer) AddEventHandlerWithResyncPeriod(
	cache.ResourceEventHandler, time.Duration,
) (cache.ResourceEventHandlerRegistration, error) {
	return nil, nil
}

type podFactory struct {
	informers.SharedInformerFactory
	of cache.SharedIndexInformer
}

func (f podFactory) Core() core.Interface                                   { return podGroup{of: f.of} }
func (f podFactory) Start(<-chan struct{})                                  {}
func (f podFactory) WaitForCacheSync(<-chan struct{}) map[reflect.Type]bool { return nil }

type podGroup struct {
	core.Interface
	of cache.SharedIndexInformer
}

func (g podGroup) V1() informersv1.Interface { return podVersion{of: g.of} }

type podVersion struct {
	informersv1.Interface
	of cache.SharedIndexInformer
}

func (v podVersion) Pods() informersv1.PodInformer { return podInformer{of: v.of} }

type podInformer struct {
	informersv1.PodInformer
	of cache.SharedIndexInformer
}

func (p podInformer) Informer() cache.SharedIndexInformer { return p.of }

type metricFactory struct {
	koordinatorinformers.SharedInformerFactory
	of cache.SharedIndexInformer
}

func (f metricFactory) Slo() slo.Interface                                     { return metricGroup{of: f.of} }
func (f metricFactory) Start(<-chan struct{})                                  {}
func (f metricFactory) WaitForCacheSync(<-chan struct{}) map[reflect.Type]bool { return nil }

type metricGroup struct {
	slo.Interface
	of cache.SharedIndexInformer
}

func (g metricGroup) V1alpha1() informersv1alpha1.Interface { return metricVersion{of: g.of} }

type metricVersion struct {
	informersv1alpha1.Interface
	of cache.SharedIndexInformer
}

func (v metricVersion) NodeMetrics() informersv1alpha1.NodeMetricInformer {
	return metricInformer{of: v.of}
}

type metricInformer struct {
	informersv1alpha1.NodeMetricInformer
	of cache.SharedIndexInformer
}

func (m metricInformer) Informer() cache.SharedIndexInformer { return m.of }
