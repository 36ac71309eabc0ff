// Package kubescheduler places gangs in kube-scheduler as the placement service answers.
//
// A gang is the pods of a PodGang of Grove, or plain pods of one namespace with annotations
// (see GangAnnotation). Its pods stay out of the queue until it is complete. Then the service is
// asked, together with all other gangs that wait, and the pods go to the answered nodes, all at
// once: they are bound when every group has its minimum. Everything else is kube-scheduler's own:
// its filters decide about each node, and a gang that they refuse gives back what it holds and is
// asked about again.
//
// A service that does not answer delays gangs only for a while: after Args.FallbackAfter
// kube-scheduler chooses the nodes, gang by gang, still whole or not at all, required levels
// included.
package kubescheduler

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"placement.example/clients/go/client"
)

// Name of the plugin in the scheduler's configuration.
const Name = "Placement"

// Plugin is the plugin, at every point of the scheduler that it needs.
type Plugin struct {
	args   Args
	handle fwk.Handle
	state  *state
	nodes  corelisters.NodeLister
	around surroundings
}

var (
	_ fwk.QueueSortPlugin   = &Plugin{}
	_ fwk.PreEnqueuePlugin  = &Plugin{}
	_ fwk.PreFilterPlugin   = &Plugin{}
	_ fwk.FilterPlugin      = &Plugin{}
	_ fwk.PostFilterPlugin  = &Plugin{}
	_ fwk.ScorePlugin       = &Plugin{}
	_ fwk.ReservePlugin     = &Plugin{}
	_ fwk.PermitPlugin      = &Plugin{}
	_ fwk.SignPlugin        = &Plugin{}
	_ fwk.EnqueueExtensions = &Plugin{}
)

// New makes the plugin: app.WithPlugin(kubescheduler.Name, kubescheduler.New).
func New(ctx context.Context, object runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	args, err := parseArgs(Name, object, pluginDefaults)
	if err != nil {
		return nil, err
	}
	service, err := client.New(args.Service, args.options()...)
	if err != nil {
		return nil, err
	}
	p := &Plugin{
		args:   args,
		handle: handle,
		state:  newState(handle.ProfileName(), time.Now),
		nodes:  handle.SharedInformerFactory().Core().V1().Nodes().Lister(),
	}
	p.around = surroundings{factory: handle.SharedInformerFactory()}
	if p.around.further, err = watchFurther(ctx, handle, args.AlsoSend, p.state.clusterChanged); err != nil {
		return nil, errors.Join(err, service.Close())
	}
	if err := p.watch(ctx); err != nil {
		return nil, errors.Join(err, service.Close())
	}
	go newPlanner(p, service.NewObjectsSession()).run(ctx)
	return p, nil
}

// Name of the plugin.
func (p *Plugin) Name() string { return Name }

// Less keeps gangs together in the queue: two gangs that are placed pod by pod in turn would each
// hold what the other waits for.
func (p *Plugin) Less(a, b fwk.QueuedPodInfo) bool {
	return p.state.before(a.GetPodInfo().GetPod(), b.GetPodInfo().GetPod(), a.GetTimestamp(), b.GetTimestamp())
}

// PreEnqueue keeps a pod out of the queue until its gang may go. It runs with the queue locked.
func (p *Plugin) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	verdict := p.state.judge(pod)
	if verdict.node != "" || verdict.isFree {
		return nil
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, verdict.message)
}

// EventsToRegister says what may help pods that the plugin refused. Answers of the service wake
// them by Activate.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeLabel | fwk.UpdateNodeTaint | fwk.UpdateNodeAllocatable}},
		{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete}},
	}, nil
}

// stateKey is where a scheduling cycle keeps the verdict on its pod.
const stateKey fwk.StateKey = Name

func (v *verdict) Clone() fwk.StateData { return v }

// PreFilter restricts the nodes to the answered one.
func (p *Plugin) PreFilter(
	_ context.Context, cycle fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo,
) (*fwk.PreFilterResult, *fwk.Status) {
	verdict := p.state.judge(pod)
	switch {
	case verdict.node != "":
		cycle.Write(stateKey, &verdict)
		return &fwk.PreFilterResult{NodeNames: setOf(verdict.node)}, nil
	case verdict.alone != nil:
		cycle.Write(stateKey, &verdict)
		return nil, nil
	case verdict.isFree:
		return nil, fwk.NewStatus(fwk.Skip)
	default: // What was answered has been taken back since the pod was queued.
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, verdict.message)
	}
}

// PreFilterExtensions is nil: other pods do not change what was answered.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter allows a pod only on the answered node. PreFilter is not enough: a node that the pod is
// nominated for is tried without asking it. Without an answer it keeps the required levels.
func (p *Plugin) Filter(_ context.Context, cycle fwk.CycleState, _ *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	verdict := verdictOf(cycle)
	switch {
	case verdict == nil:
		return nil
	case verdict.node != "":
		if info.Node().Name != verdict.node {
			return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "the placement service answered node "+verdict.node)
		}
	case verdict.alone != nil:
		if level := p.brokenLevel(verdict.alone, info.Node()); level != "" {
			return fwk.NewStatus(fwk.Unschedulable, "the gang is in another domain of its required level "+level)
		}
	}
	return nil
}

// PostFilter is called when a pod has no node. Its gang gives back what it holds.
func (p *Plugin) PostFilter(
	_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ fwk.NodeToStatusReader,
) (*fwk.PostFilterResult, *fwk.Status) {
	if _, isMember := gangOf(pod); !isMember {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	isPlanned := p.state.judge(pod).node != ""
	p.release(p.state.giveUp(pod, "the answered node of pod "+pod.Name+" no longer takes it; the service is asked again"))
	if isPlanned {
		// The service chose this node without evictions, so no pod may be preempted there.
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "the answer for the gang is out of date")
	}
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

// Score prefers the answered node, and without an answer the domains that the gang is in.
func (p *Plugin) Score(_ context.Context, cycle fwk.CycleState, _ *v1.Pod, info fwk.NodeInfo) (int64, *fwk.Status) {
	verdict := verdictOf(cycle)
	switch {
	case verdict == nil:
		return 0, nil
	case verdict.node != "":
		return fwk.MaxScore, nil
	default:
		return p.closeness(verdict.alone, info.Node()), nil
	}
}

// ScoreExtensions is nil: scores are final.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return nil }

// SignPod refuses to batch pods of gangs: pods that are alike may have different nodes in the
// answer.
func (p *Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if _, isMember := gangOf(pod); isMember {
		return nil, fwk.NewStatus(fwk.Unschedulable, "pods of gangs are not alike")
	}
	return nil, nil
}

// Reserve records the node.
func (p *Plugin) Reserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	if !p.state.assume(pod, node) {
		return fwk.NewStatus(fwk.Unschedulable, "another node was answered meanwhile")
	}
	return nil
}

// Unreserve gives the node back, and those of the gang's other pods with it.
func (p *Plugin) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	p.release(p.state.giveUp(pod, "pod "+pod.Name+" of the gang lost its node; the service is asked again"))
}

// Permit holds pods back until every group of their gang has its minimum, then lets all go.
func (p *Plugin) Permit(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	others, whole := p.state.isWhole(pod)
	if !whole {
		return fwk.NewStatus(fwk.Wait), p.args.PermitTimeout.Duration
	}
	for _, uid := range others {
		if waiting := p.handle.GetWaitingPod(uid); waiting != nil {
			waiting.Allow(Name)
		}
	}
	return nil, 0
}

// release rejects pods that wait in Permit. Those that are being bound already continue.
func (p *Plugin) release(pods []types.UID) {
	for _, uid := range pods {
		if waiting := p.handle.GetWaitingPod(uid); waiting != nil {
			waiting.Reject(Name, "another pod of the gang has no node")
		} else {
			p.state.keep(uid)
		}
	}
}

// brokenLevel is a required level that the gang would break with a pod on this node; empty when
// none.
func (p *Plugin) brokenLevel(view *gangView, node *v1.Node) string {
	for _, scope := range view.shape.scopes {
		if scope.required == "" || !scope.holds(view.group) {
			continue
		}
		value, hasLabel := node.Labels[scope.required]
		if !hasLabel || p.isElsewhere(view, scope, value) {
			return scope.required
		}
	}
	return ""
}

// isElsewhere says whether a pod of the scope is on a node with another value.
func (p *Plugin) isElsewhere(view *gangView, of scope, value string) bool {
	for group, nodes := range view.nodes {
		if !of.holds(group) {
			continue
		}
		for _, name := range nodes {
			if other, err := p.nodes.Get(name); err == nil && other.Labels[of.required] != value {
				return true
			}
		}
	}
	return false
}

// closeness is how many of the gang's pods are in the node's domains of the preferred levels.
func (p *Plugin) closeness(view *gangView, node *v1.Node) int64 {
	near, all := int64(0), int64(0)
	for _, scope := range view.shape.scopes {
		if scope.preferred == "" || !scope.holds(view.group) {
			continue
		}
		for group, nodes := range view.nodes {
			if !scope.holds(group) {
				continue
			}
			for _, name := range nodes {
				all++
				if other, err := p.nodes.Get(name); err == nil && other.Labels[scope.preferred] == node.Labels[scope.preferred] {
					near++
				}
			}
		}
	}
	if all == 0 {
		return 0
	}
	return fwk.MaxScore * near / all
}

func verdictOf(cycle fwk.CycleState) *verdict {
	data, err := cycle.Read(stateKey)
	if err != nil { // PreFilter wrote nothing: the pod is in no gang.
		return nil
	}
	verdict, _ := data.(*verdict)
	return verdict
}
