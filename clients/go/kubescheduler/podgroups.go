package kubescheduler

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1alpha2"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"placement.example/clients/go/client"
)

// PodGroupsName is the name of the plugin for Kubernetes' own gangs in the scheduler's
// configuration.
const PodGroupsName = "PlacementPodGroups"

const (
	// again is how often the service is asked about a gang for which it has no room. Kubernetes 1.36
	// tries such a gang a thousand times a second.
	again = time.Second
	// outdated is when an answer that the scheduler did not follow is forgotten.
	outdated = time.Minute
)

// PodGroups lets the service choose the nodes of Kubernetes' own gangs (PodGroups of
// scheduling.k8s.io/v1alpha2). The scheduler gathers such a gang itself and tries placements of it,
// sets of nodes; this plugin makes one placement, the answered nodes, and allows each pod only on
// its own node. The scheduler waits for the answer, for Args.Timeout at most. Without an answer it
// continues with all nodes, and is not delayed again for a while.
//
// It needs the gates GenericWorkload, GangScheduling and TopologyAwareWorkloadScheduling. A
// profile has one plugin of this kind, so it replaces TopologyPlacementGenerator; the service keeps
// the required level instead.
type PodGroups struct {
	args    Args
	handle  fwk.Handle
	service asker
	groups  schedulinglisters.PodGroupLister
	pods    corelisters.PodLister
	around  surroundings
	encoder *encoder
	now     func() time.Time

	mutex sync.Mutex
	// answers are the last of each gang.
	answers map[key]*podGroupAnswer
	// failures counts questions without an answer, and the service is not asked before the time.
	failures  int
	notBefore time.Time
}

// A podGroupAnswer is what the service said of the pods that waited.
type podGroupAnswer struct {
	pods string
	at   time.Time
	// nodes of the pods; a pod without one stays behind. Nil: no pod has a node.
	nodes   map[types.UID]string
	message string
	// tries counts the answers in a row that the scheduler did not follow. After too many of them the
	// gang goes without one for a while.
	tries   int
	isAlone bool
}

var (
	_ fwk.PlacementGeneratePlugin = &PodGroups{}
	_ fwk.FilterPlugin            = &PodGroups{}
	_ fwk.SignPlugin              = &PodGroups{}
	_ fwk.EnqueueExtensions       = &PodGroups{}
)

// NewPodGroups makes the plugin: app.WithPlugin(kubescheduler.PodGroupsName, kubescheduler.NewPodGroups).
func NewPodGroups(ctx context.Context, object runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	args, err := parseArgs(PodGroupsName, object, podGroupDefaults)
	if err != nil {
		return nil, err
	}
	service, err := client.New(args.Service, args.options()...)
	if err != nil {
		return nil, err
	}
	factory := handle.SharedInformerFactory()
	p := &PodGroups{
		args: args, handle: handle, service: service.NewObjectsSession(), now: time.Now,
		groups:  factory.Scheduling().V1alpha2().PodGroups().Lister(),
		pods:    factory.Core().V1().Pods().Lister(),
		around:  surroundings{factory: factory},
		encoder: newEncoder(), answers: map[key]*podGroupAnswer{},
	}
	if p.around.further, err = watchFurther(ctx, handle, args.AlsoSend, func() {}); err != nil {
		return nil, errors.Join(err, service.Close())
	}
	p.around.informers() // The scheduler starts those that somebody asked for before it starts.
	return p, nil
}

// Name of the plugin.
func (p *PodGroups) Name() string { return PodGroupsName }

// EventsToRegister says what may help a gang that the service has no room for.
func (p *PodGroups) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeLabel | fwk.UpdateNodeTaint | fwk.UpdateNodeAllocatable}},
		{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete}},
	}, nil
}

// GeneratePlacements is one placement: the nodes that the service answers, or all nodes.
func (p *PodGroups) GeneratePlacements(
	ctx context.Context, _ fwk.PodGroupCycleState, group fwk.PodGroupInfo, parent *fwk.Placement,
) (*fwk.GeneratePlacementsResult, *fwk.Status) {
	of := key{Namespace: group.GetNamespace(), Name: group.GetName()}
	waiting := group.GetUnscheduledPods()
	everywhere := &fwk.GeneratePlacementsResult{Placements: []*fwk.Placement{parent}}
	object, err := p.groups.PodGroups(of.Namespace).Get(of.Name)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	if object.Spec.SchedulingPolicy.Gang == nil { // Its pods are scheduled one by one.
		p.forget(of)
		return everywhere, nil
	}
	before := p.before(of, waiting)
	switch {
	case before != nil && before.isAlone:
		return p.within(object, everywhere)
	case before != nil && before.nodes == nil && p.now().Sub(before.at) < again:
		return nil, fwk.NewStatus(fwk.Unschedulable, before.message)
	case before != nil && before.tries >= maxFailures:
		// The scheduler or the service knows of a rule that the other does not.
		p.keep(of, &podGroupAnswer{pods: before.pods, at: p.now(), isAlone: true})
		return p.within(object, everywhere)
	case !p.mayAsk():
		p.forget(of)
		return p.within(object, everywhere)
	}
	answer, err := p.ask(ctx, of, object, waiting, parent)
	if err != nil {
		klog.FromContext(ctx).Error(err, "the placement service did not answer", "plugin", PodGroupsName, "podGroup", of)
		p.failed()
		p.forget(of)
		return p.within(object, everywhere)
	}
	if before != nil && before.nodes != nil && answer.nodes != nil {
		answer.tries = before.tries + 1 // The same pods once more: what was answered did not work out.
	}
	p.keep(of, answer)
	if answer.nodes == nil {
		return nil, fwk.NewStatus(fwk.Unschedulable, answer.message)
	}
	chosen := map[string]bool{}
	for _, node := range answer.nodes {
		chosen[node] = true
	}
	nodes := slices.DeleteFunc(slices.Clone(parent.Nodes), func(one fwk.NodeInfo) bool { return !chosen[one.Node().Name] })
	return &fwk.GeneratePlacementsResult{Placements: []*fwk.Placement{{Name: "placement-service", Nodes: nodes}}}, nil
}

// Filter allows a pod of an answered gang only on its own node.
func (p *PodGroups) Filter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	of, isMember := podGroupOf(pod)
	if !isMember {
		return nil
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	answer := p.answers[of]
	if answer == nil || answer.nodes == nil {
		return nil
	}
	switch node := answer.nodes[pod.UID]; node {
	case info.Node().Name:
		return nil
	case "":
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, cmp.Or(answer.message, "the placement service has no place for the pod"))
	default:
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "the placement service answered node "+node)
	}
}

// SignPod refuses to batch pods of gangs: pods that are alike may have different nodes in the
// answer.
func (p *PodGroups) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if _, isMember := podGroupOf(pod); isMember {
		return nil, fwk.NewStatus(fwk.Unschedulable, "pods of gangs are not alike")
	}
	return nil, nil
}

// ask asks about one gang, on the nodes of the scheduler's snapshot, which knows what is assumed.
func (p *PodGroups) ask(
	ctx context.Context, of key, object *schedulingv1alpha2.PodGroup, waiting []*v1.Pod, on *fwk.Placement,
) (*podGroupAnswer, error) {
	members, err := p.members(of)
	if err != nil {
		return nil, err
	}
	members = append(members, waiting...)
	around, err := p.around.of(waiting)
	if err != nil {
		return nil, err
	}
	shape := shapeOfPodGroup(object, members)
	groups, err := p.groups.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	marked := map[key]marks{}
	for _, one := range groups {
		if found := marksOf(one.Labels); found != nil {
			marked[nameOf(one)] = found
		}
	}
	sent := shape.podGang(of, object.CreationTimestamp)
	sent.SetLabels(marked[of])
	q := &question{
		asOf: p.now(), timeLimit: p.args.TimeLimit.Duration, assumed: map[types.UID]string{},
		gangs: []askedGang{{of, sent, waiting}}, gangOf: podGroupOf, marks: marked,
	}
	var nodes []*v1.Node
	var running []*v1.Pod
	for _, one := range on.Nodes {
		nodes = append(nodes, one.Node())
		for _, pod := range one.GetPods() {
			running = append(running, pod.GetPod())
			q.assumed[pod.GetPod().UID] = one.Node().Name
		}
	}
	if err := p.encoder.encode(q, nodes, running, around); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, p.args.Timeout.Duration)
	defer cancel()
	response, refused, err := q.settle(ctx, p.service)
	answer := &podGroupAnswer{pods: fingerprint(waiting), at: p.now()}
	if fault := refused[of]; fault != "" {
		answer.message = "the placement service refuses the gang: " + fault
		return answer, nil
	}
	if err != nil {
		return nil, err
	}
	for _, result := range response.GetPlacement().GetGangs() {
		answer.message = reasonsOf(result)
		if result.GetPlaced() {
			byName := nodesByPod(response.GetPlacement())
			answer.nodes = map[types.UID]string{}
			for _, pod := range waiting {
				if node := byName[nameOf(pod)]; node != "" {
					answer.nodes[pod.UID] = node
				}
			}
		}
	}
	return answer, nil
}

// members are the gang's pods that run already.
func (p *PodGroups) members(of key) ([]*v1.Pod, error) {
	all, err := p.pods.Pods(of.Namespace).List(labels.Everything())
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(pod *v1.Pod) bool {
		group, isMember := podGroupOf(pod)
		return !isMember || group != of || pod.Spec.NodeName == "" || isFinished(pod)
	}), nil
}

// within is what is tried without an answer: all nodes, or one domain of the required level after
// the other.
func (p *PodGroups) within(
	object *schedulingv1alpha2.PodGroup, everywhere *fwk.GeneratePlacementsResult,
) (*fwk.GeneratePlacementsResult, *fwk.Status) {
	level := requiredLevel(object)
	if level == "" {
		return everywhere, nil
	}
	running, err := p.members(nameOf(object))
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	domains := map[string][]fwk.NodeInfo{}
	home := ""
	for _, node := range everywhere.Placements[0].Nodes {
		value := node.Node().Labels[level]
		if value == "" {
			continue
		}
		domains[value] = append(domains[value], node)
		if slices.ContainsFunc(running, func(pod *v1.Pod) bool { return pod.Spec.NodeName == node.Node().Name }) {
			home = value
		}
	}
	result := &fwk.GeneratePlacementsResult{}
	for value, nodes := range domains {
		if home == "" || value == home {
			result.Placements = append(result.Placements, &fwk.Placement{Name: value, Nodes: nodes})
		}
	}
	return result, nil
}

// before is the last answer of a gang, if it was about the same pods and not long ago.
func (p *PodGroups) before(of key, waiting []*v1.Pod) *podGroupAnswer {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for one, answer := range p.answers {
		if p.now().Sub(answer.at) >= outdated {
			delete(p.answers, one)
		}
	}
	if answer := p.answers[of]; answer != nil && answer.pods == fingerprint(waiting) {
		return answer
	}
	return nil
}

// keep records an answer.
func (p *PodGroups) keep(of key, answer *podGroupAnswer) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.failures = 0
	p.answers[of] = answer
}

// forget lets the scheduler choose the nodes of a gang's pods.
func (p *PodGroups) forget(of key) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	delete(p.answers, of)
}

func (p *PodGroups) mayAsk() bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return !p.now().Before(p.notBefore)
}

// failed lets the scheduler continue without the service for a while.
func (p *PodGroups) failed() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.failures++
	p.notBefore = p.now().Add(max(backoff(p.failures), p.args.Timeout.Duration))
}

// podGroupOf is the PodGroup that a pod belongs to.
func podGroupOf(pod *v1.Pod) (key, bool) {
	if pod.Spec.SchedulingGroup == nil || pod.Spec.SchedulingGroup.PodGroupName == nil {
		return key{}, false
	}
	return key{Namespace: pod.Namespace, Name: *pod.Spec.SchedulingGroup.PodGroupName}, true
}

// shapeOfPodGroup is a gang of one group.
func shapeOfPodGroup(object *schedulingv1alpha2.PodGroup, members []*v1.Pod) shape {
	s := shape{groups: map[string]int{defaultGroup: int(object.Spec.SchedulingPolicy.Gang.MinCount)}, group: map[types.NamespacedName]string{}}
	for _, pod := range members {
		s.group[nameOf(pod)] = defaultGroup
	}
	if level := requiredLevel(object); level != "" {
		s.scopes = []scope{{required: level}}
	}
	return s
}

// requiredLevel is the node label of which all pods must share one value; empty when there is
// none.
func requiredLevel(object *schedulingv1alpha2.PodGroup) string {
	if constraints := object.Spec.SchedulingConstraints; constraints != nil && len(constraints.Topology) > 0 {
		return constraints.Topology[0].Key
	}
	return ""
}
