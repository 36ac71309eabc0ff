package kubescheduler

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// surroundings are what pods refer to: volumes, namespaces and devices, of which only what the
// waiting pods need is sent, and disruption budgets. kube-scheduler watches them anyway.
type surroundings struct {
	factory informers.SharedInformerFactory
	further *furtherKinds
}

// informers are those of the kinds whose changes may help a gang.
func (s surroundings) informers() []cache.SharedIndexInformer {
	s.factory.Policy().V1().PodDisruptionBudgets().Informer() // Started with the others; it wakes nobody.
	core, devices := s.factory.Core().V1(), s.factory.Resource().V1()
	return []cache.SharedIndexInformer{
		core.PersistentVolumeClaims().Informer(),
		core.PersistentVolumes().Informer(),
		core.Namespaces().Informer(),
		s.factory.Storage().V1().StorageClasses().Informer(),
		devices.ResourceClaims().Informer(),
		devices.DeviceClasses().Informer(),
		devices.ResourceSlices().Informer(),
	}
}

// of are the objects that these pods need, with kind and version.
func (s surroundings) of(pods []*v1.Pod) ([]metav1.Object, error) {
	volumes, err := s.volumes(pods)
	if err != nil {
		return nil, err
	}
	namespaces, err := s.namespaces(pods)
	if err != nil {
		return nil, err
	}
	devices, err := s.devices(pods)
	if err != nil {
		return nil, err
	}
	budgets, err := s.budgets()
	if err != nil {
		return nil, err
	}
	further, err := s.further.all()
	return slices.Concat(volumes, namespaces, devices, budgets, further), err
}

// budgets are all: the plugin evicts no pods, but the service says what would have to go, and what
// must not.
func (s surroundings) budgets() ([]metav1.Object, error) {
	found, err := s.factory.Policy().V1().PodDisruptionBudgets().Lister().List(labels.Everything())
	objects := make([]metav1.Object, 0, len(found))
	for _, one := range found {
		copied := *one
		objects = append(objects, described(&copied, &copied.TypeMeta, &copied.ObjectMeta, policyv1.SchemeGroupVersion.String(), "PodDisruptionBudget"))
	}
	return objects, err
}

// volumes are the claims of pods, what they are bound to, and all classes when there are any.
func (s surroundings) volumes(pods []*v1.Pod) ([]metav1.Object, error) {
	core := s.factory.Core().V1()
	var objects []metav1.Object
	seen := map[types.NamespacedName]bool{}
	for _, pod := range pods {
		for _, volume := range pod.Spec.Volumes {
			name := ""
			if volume.PersistentVolumeClaim != nil {
				name = volume.PersistentVolumeClaim.ClaimName
			} else if volume.Ephemeral != nil {
				name = pod.Name + "-" + volume.Name
			}
			of := types.NamespacedName{Namespace: pod.Namespace, Name: name}
			if name == "" || seen[of] {
				continue
			}
			seen[of] = true
			claim, err := core.PersistentVolumeClaims().Lister().PersistentVolumeClaims(of.Namespace).Get(of.Name)
			if err != nil { // Not made yet: the answer says that it is missing.
				continue
			}
			copied := *claim
			objects = append(objects, described(&copied, &copied.TypeMeta, &copied.ObjectMeta, "v1", "PersistentVolumeClaim"))
			if bound, err := core.PersistentVolumes().Lister().Get(claim.Spec.VolumeName); err == nil {
				copied := *bound
				objects = append(objects, described(&copied, &copied.TypeMeta, &copied.ObjectMeta, "v1", "PersistentVolume"))
			}
		}
	}
	if len(seen) == 0 {
		return nil, nil
	}
	classes, err := s.factory.Storage().V1().StorageClasses().Lister().List(labels.Everything())
	for _, class := range classes {
		copied := *class
		objects = append(objects, described(&copied, &copied.TypeMeta, &copied.ObjectMeta, storagev1.SchemeGroupVersion.String(), "StorageClass"))
	}
	return objects, err
}

// namespaces are all, when rules of pods select them by labels.
func (s surroundings) namespaces(pods []*v1.Pod) ([]metav1.Object, error) {
	if !slices.ContainsFunc(pods, selectsNamespaces) {
		return nil, nil
	}
	found, err := s.factory.Core().V1().Namespaces().Lister().List(labels.Everything())
	objects := make([]metav1.Object, 0, len(found))
	for _, one := range found {
		copied := *one
		objects = append(objects, described(&copied, &copied.TypeMeta, &copied.ObjectMeta, "v1", "Namespace"))
	}
	return objects, err
}

func selectsNamespaces(pod *v1.Pod) bool {
	if pod.Spec.Affinity == nil {
		return false
	}
	var terms []v1.PodAffinityTerm
	if near := pod.Spec.Affinity.PodAffinity; near != nil {
		terms = append(terms, near.RequiredDuringSchedulingIgnoredDuringExecution...)
	}
	if far := pod.Spec.Affinity.PodAntiAffinity; far != nil {
		terms = append(terms, far.RequiredDuringSchedulingIgnoredDuringExecution...)
	}
	return slices.ContainsFunc(terms, func(term v1.PodAffinityTerm) bool { return term.NamespaceSelector != nil })
}

// devices are all claims, classes and slices, when pods have claims: claims of others hold devices.
func (s surroundings) devices(pods []*v1.Pod) ([]metav1.Object, error) {
	if !slices.ContainsFunc(pods, func(pod *v1.Pod) bool { return len(pod.Spec.ResourceClaims) > 0 }) {
		return nil, nil
	}
	version := resourcev1.SchemeGroupVersion.String()
	all := s.factory.Resource().V1()
	var objects []metav1.Object
	claims, err := all.ResourceClaims().Lister().List(labels.Everything())
	if err != nil {
		return nil, err
	}
	for _, one := range claims {
		copied := *one
		objects = append(objects, described(&copied, &copied.TypeMeta, &copied.ObjectMeta, version, "ResourceClaim"))
	}
	classes, err := all.DeviceClasses().Lister().List(labels.Everything())
	if err != nil {
		return nil, err
	}
	for _, one := range classes {
		copied := *one
		objects = append(objects, described(&copied, &copied.TypeMeta, &copied.ObjectMeta, version, "DeviceClass"))
	}
	found, err := all.ResourceSlices().Lister().List(labels.Everything())
	for _, one := range found {
		copied := *one
		objects = append(objects, described(&copied, &copied.TypeMeta, &copied.ObjectMeta, version, "ResourceSlice"))
	}
	return objects, err
}

// described sets the kind of a copy, which objects of informers lack, and drops who wrote it.
func described(object metav1.Object, kind *metav1.TypeMeta, metadata *metav1.ObjectMeta, version, name string) metav1.Object {
	kind.APIVersion, kind.Kind = version, name
	metadata.ManagedFields = nil
	return object
}
