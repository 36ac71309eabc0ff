package kubescheduler

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
)

// furtherKinds are objects that go along with each question because the settings say so: queues,
// reservations, topologies. Without them the question would be wrong, so none is asked until all
// are read.
type furtherKinds struct {
	resources []schema.GroupVersionResource
	informers []informers.GenericInformer
}

// watchFurther follows the kinds that arguments name.
func watchFurther(ctx context.Context, handle fwk.Handle, names []string, changed func()) (*furtherKinds, error) {
	further := &furtherKinds{}
	if len(names) == 0 {
		return further, nil
	}
	from, err := dynamic.NewForConfig(handle.KubeConfig())
	if err != nil {
		return nil, err
	}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(from, 0)
	for _, name := range names {
		resource, err := parseResource(name)
		if err != nil {
			return nil, err
		}
		informer := factory.ForResource(resource)
		if err := informer.Informer().SetTransform(withoutManagedFields); err != nil {
			return nil, err
		}
		if _, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { changed() },
			UpdateFunc: func(before, after any) {
				if before.(metav1.Object).GetResourceVersion() != after.(metav1.Object).GetResourceVersion() {
					changed()
				}
			},
			DeleteFunc: func(any) { changed() },
		}); err != nil {
			return nil, err
		}
		further.resources = append(further.resources, resource)
		further.informers = append(further.informers, informer)
	}
	factory.Start(ctx.Done())
	return further, nil
}

// withoutManagedFields drops who wrote an object.
func withoutManagedFields(object any) (any, error) {
	if known, is := object.(metav1.Object); is {
		known.SetManagedFields(nil)
	}
	return object, nil
}

// parseResource reads a name such as "queues.v2.scheduling.run.ai".
func parseResource(name string) (schema.GroupVersionResource, error) {
	resource, _ := schema.ParseResourceArg(name)
	if resource == nil || resource.Resource == "" || resource.Version == "" || resource.Group == "" {
		return schema.GroupVersionResource{}, fmt.Errorf("alsoSend: %q is not resource.version.group, as in queues.v2.scheduling.run.ai", name)
	}
	return *resource, nil
}

// all are the objects, or an error while some are not read yet.
func (f *furtherKinds) all() ([]metav1.Object, error) {
	var objects []metav1.Object
	for i, informer := range f.informers {
		if !informer.Informer().HasSynced() {
			return nil, fmt.Errorf("alsoSend: %s are not read yet; are they served, and may the scheduler list and watch them?", f.resources[i].GroupResource())
		}
		found, err := informer.Lister().List(labels.Everything())
		if err != nil {
			return nil, err
		}
		for _, one := range found {
			if object, isObject := one.(*unstructured.Unstructured); isObject {
				objects = append(objects, object)
			}
		}
	}
	return objects, nil
}

// waitUntilRead gives the informers time at the start, so that no gang goes without an answer only
// because the scheduler has just begun.
func (f *furtherKinds) waitUntilRead(ctx context.Context, most time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for _, informer := range f.informers {
		cache.WaitForCacheSync(ctx.Done(), informer.Informer().HasSynced)
	}
}
