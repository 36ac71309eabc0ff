package kubescheduler

import (
	"context"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

var podGangs = schema.GroupVersionResource{Group: "scheduler.grove.io", Version: "v1alpha1", Resource: "podgangs"}

// lookAgain is how often to check whether the API server serves PodGangs by now.
const lookAgain = 30 * time.Second

// watch follows pods and nodes by the informers of the scheduler, and PodGangs, where there are
// any, by one of its own.
func (p *Plugin) watch(ctx context.Context) error {
	factory := p.handle.SharedInformerFactory().Core().V1()
	if _, err := factory.Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { p.sawPod(object) },
		UpdateFunc: func(_, object any) { p.sawPod(object) },
		DeleteFunc: func(object any) {
			if pod, isPod := last(object).(*v1.Pod); isPod {
				p.state.forget(pod)
				if pod.Spec.NodeName != "" {
					p.state.clusterChanged()
				}
			}
		},
	}); err != nil {
		return err
	}
	if _, err := factory.Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { p.state.clusterChanged() },
		UpdateFunc: func(before, after any) {
			if bears(before.(*v1.Node), after.(*v1.Node)) {
				p.state.clusterChanged()
			}
		},
		DeleteFunc: func(any) { p.state.clusterChanged() },
	}); err != nil {
		return err
	}
	for _, informer := range p.around.informers() {
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { p.state.clusterChanged() },
			UpdateFunc: func(before, after any) {
				// Informers repeat themselves.
				if before.(metav1.Object).GetResourceVersion() != after.(metav1.Object).GetResourceVersion() {
					p.state.clusterChanged()
				}
			},
			DeleteFunc: func(any) { p.state.clusterChanged() },
		}); err != nil {
			return err
		}
	}
	config := p.handle.KubeConfig()
	if config == nil { // As in tests without an API server.
		return nil
	}
	podGangClient, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	go p.watchPodGangs(ctx, podGangClient)
	return nil
}

func (p *Plugin) sawPod(object any) {
	pod, isPod := object.(*v1.Pod)
	if !isPod {
		return
	}
	p.state.observe(pod)
	if isFinished(pod) {
		p.state.clusterChanged()
	}
}

// watchPodGangs waits until PodGangs are served, then follows them.
func (p *Plugin) watchPodGangs(ctx context.Context, from dynamic.Interface) {
	logger := klog.FromContext(ctx)
	for {
		resources, err := p.handle.ClientSet().Discovery().ServerResourcesForGroupVersion(podGangs.GroupVersion().String())
		if err == nil && resources != nil {
			break
		}
		logger.V(3).Info("PodGangs are not served; gangs are those of annotations", "plugin", Name, "err", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookAgain):
		}
	}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(from, 0)
	saw := func(object any) {
		if gang, isObject := object.(*unstructured.Unstructured); isObject {
			p.state.observePodGang(nameOf(gang), gang)
		}
	}
	_, err := factory.ForResource(podGangs).Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    saw,
		UpdateFunc: func(_, object any) { saw(object) },
		DeleteFunc: func(object any) {
			if gang, isObject := last(object).(*unstructured.Unstructured); isObject {
				p.state.observePodGang(nameOf(gang), nil)
			}
		},
	})
	if err != nil {
		logger.Error(err, "PodGangs are not watched", "plugin", Name)
		return
	}
	factory.Start(ctx.Done())
}

// bears says whether a change of a node affects where pods may run.
func bears(before, after *v1.Node) bool {
	return before.Spec.Unschedulable != after.Spec.Unschedulable ||
		isNodeReady(before) != isNodeReady(after) ||
		!maps.Equal(before.Labels, after.Labels) ||
		!equality.Semantic.DeepEqual(before.Spec.Taints, after.Spec.Taints) ||
		!equality.Semantic.DeepEqual(before.Status.Allocatable, after.Status.Allocatable)
}

func isNodeReady(node *v1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(one v1.NodeCondition) bool {
		return one.Type == v1.NodeReady && one.Status == v1.ConditionTrue
	})
}

// last is the last known state of an object that is gone.
func last(object any) any {
	if tombstone, is := object.(cache.DeletedFinalStateUnknown); is {
		return tombstone.Obj
	}
	return object
}

func setOf(names ...string) sets.Set[string] { return sets.New(names...) }
