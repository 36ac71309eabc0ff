package kubescheduler

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"placement.example/clients/go/client"
	kubernetesv1 "placement.example/clients/go/stubs/placement/kubernetes/v1"
	placementv1 "placement.example/clients/go/stubs/placement/v1"
)

const (
	// glance is how often the planner checks the clock for what is due.
	glance = time.Second
	// maxPause is the longest wait between two questions to a service that does not answer.
	maxPause = 5 * time.Second
	// patience is how long a gang may lack pods, or its PodGang, before that is reported.
	patience = 10 * time.Second
	// maxReasons is how many reasons for waiting a pod is told.
	maxReasons = 3
)

// asker is a session of the client: of the objects it sends what has changed since the last question.
type asker interface {
	Replace(...client.Object)
	Place(context.Context, *kubernetesv1.PlaceObjectsRequest) (*kubernetesv1.PlaceObjectsResponse, error)
}

// planner asks the service whenever a gang waits, for all gangs that wait together.
type planner struct {
	plugin  *Plugin
	service asker
	encoder *encoder
	// failures counts the questions without an answer, one after the other.
	failures int
	// told is what was last reported on pods of a gang.
	told map[key]string
}

func newPlanner(p *Plugin, service asker) *planner {
	return &planner{plugin: p, service: service, encoder: newEncoder(), told: map[key]string{}}
}

// run asks until the context ends.
func (l *planner) run(ctx context.Context) {
	factory := l.plugin.handle.SharedInformerFactory().Core().V1()
	synced := []cache.InformerSynced{factory.Pods().Informer().HasSynced, factory.Nodes().Informer().HasSynced}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return
	}
	l.plugin.around.further.waitUntilRead(ctx, patience)
	ticker := time.NewTicker(glance)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.plugin.state.wake:
		case <-ticker.C:
		}
		l.letGo(ctx)
		l.tell(l.plugin.state.troubles(patience))
		if !l.plugin.state.isDue(l.plugin.args.RetryAfter.Duration) {
			continue
		}
		// Gangs that come together are asked about together.
		if !pause(ctx, l.plugin.args.BatchWindow.Duration) {
			return
		}
		l.round(ctx)
		if l.failures > 0 {
			wait := min(200*time.Millisecond<<min(l.failures, 8), maxPause)
			if !pause(ctx, wait) {
				return
			}
		}
	}
}

// round asks once and carries out the answer.
func (l *planner) round(ctx context.Context) {
	logger := klog.FromContext(ctx).WithValues("plugin", Name)
	question, err := l.question()
	if err != nil {
		logger.Error(err, "the question cannot be made")
		l.failures++
		return
	}
	begin := time.Now()
	answer, err := l.ask(ctx, question)
	if err != nil {
		l.failures++
		logger.Error(err, "the placement service did not answer", "gangs", len(question.gangs), "after", time.Since(begin))
		l.letGo(ctx)
		return
	}
	l.failures = 0
	outcome := l.plugin.state.accept(question, answer.GetPlacement(), l.plugin.args.PermitTimeout.Duration)
	logger.V(2).Info("the placement service answered", "gangs", len(question.gangs), "placed", outcome.placed,
		"pods", len(outcome.activate), "after", time.Since(begin))
	for _, warning := range answer.GetWarnings() {
		logger.V(3).Info("translation", "warning", warning)
	}
	l.activate(ctx, outcome.activate)
	l.tell(outcome.waiting)
}

// ask asks within the time that is left before some gang goes without an answer. A gang that the
// service refuses is left out, so that it does not stop the others.
func (l *planner) ask(ctx context.Context, question *question) (*kubernetesv1.PlaceObjectsResponse, error) {
	timeout := l.plugin.args.Timeout.Duration
	if left, isLimited := l.plugin.state.patience(question, l.plugin.args.FallbackAfter.Duration); isLimited {
		timeout = max(min(timeout, left), glance)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	answer, refused, err := question.settle(ctx, l.service)
	if len(refused) > 0 {
		l.plugin.state.refuse(refused)
		l.tell(l.plugin.state.waitingOf(refused))
	}
	return answer, err
}

// letGo hands gangs that waited too long for an answer to the scheduler.
func (l *planner) letGo(ctx context.Context) {
	after := l.plugin.args.FallbackAfter.Duration
	if pods := l.plugin.state.letGo(after); len(pods) > 0 {
		klog.FromContext(ctx).Info("gangs go without an answer", "plugin", Name, "pods", len(pods), "after", after)
		l.activate(ctx, pods)
	}
}

func (l *planner) activate(ctx context.Context, pods []*v1.Pod) {
	if len(pods) == 0 {
		return
	}
	byName := make(map[string]*v1.Pod, len(pods))
	for _, pod := range pods {
		byName[nameOf(pod).String()] = pod
	}
	l.plugin.handle.Activate(klog.FromContext(ctx), byName)
}

// tell writes an event on each pod that waits, when the reason has changed. Nothing else tells a
// user why a pod that is kept out of the queue does not run.
func (l *planner) tell(waiting []waitingGang) {
	recorder := l.plugin.handle.EventRecorder()
	for _, one := range waiting {
		if l.told[one.key] == one.message {
			continue
		}
		l.told[one.key] = one.message
		for _, pod := range one.pods {
			recorder.Eventf(pod, nil, v1.EventTypeWarning, "GangWaits", "Scheduling", "%s", shortened(one.message))
		}
	}
	for of := range l.told {
		if !l.plugin.state.has(of) {
			delete(l.told, of)
		}
	}
}

// shortened fits an event.
func shortened(text string) string {
	const most = 1000
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + " ..."
}

func pause(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// question reads what the scheduler's informers show. The scheduler's snapshot is not used: it
// belongs to the cycle under way.
func (l *planner) question() (*question, error) {
	factory := l.plugin.handle.SharedInformerFactory().Core().V1()
	nodes, err := factory.Nodes().Lister().List(labels.Everything())
	if err != nil {
		return nil, err
	}
	pods, err := factory.Pods().Lister().List(labels.Everything())
	if err != nil {
		return nil, err
	}
	q := l.plugin.state.question()
	q.timeLimit = l.plugin.args.TimeLimit.Duration
	around, err := l.plugin.around.of(q.waiting())
	if err != nil {
		return nil, err
	}
	return q, l.encoder.encode(q, nodes, pods, around)
}

// A question is what is asked, and what the answer is compared with.
type question struct {
	asOf      time.Time
	version   uint64
	timeLimit time.Duration
	// gangs that wait, with their PodGangs, the pods that want nodes, and bases beside them.
	gangs []askedGang
	bases []*unstructured.Unstructured
	// nodes of pods that have one in the scheduler only.
	assumed map[types.UID]string
	// gangOf is the gang of a pod that runs, and marks are those of gangs.
	gangOf func(*v1.Pod) (key, bool)
	marks  map[key]marks
	// entries are all objects, in the order in which they are sent.
	entries []entry
	// closed is how often queues of these names were closed.
	closed map[string]int
}

type askedGang struct {
	key     key
	object  *unstructured.Unstructured
	waiting []*v1.Pod
}

// An entry is one object that is sent. A gang or a node that cannot be described without it is left
// out with it. In the place of a queue comes one that lets nothing in.
type entry struct {
	client.Object
	gang key
	node string
}

// waiting are the pods that want nodes.
func (q *question) waiting() []*v1.Pod {
	var pods []*v1.Pod
	for _, one := range q.gangs {
		pods = append(pods, one.waiting...)
	}
	return pods
}

// put asks a service.
func (q *question) put(ctx context.Context, service asker) (*kubernetesv1.PlaceObjectsResponse, error) {
	objects := make([]client.Object, len(q.entries))
	for i, one := range q.entries {
		objects[i] = one.Object
	}
	service.Replace(objects...)
	return service.Place(ctx, &kubernetesv1.PlaceObjectsRequest{
		AsOf:      timestamppb.New(q.asOf),
		TimeLimit: durationpb.New(q.timeLimit),
		Label:     "kube-scheduler",
	})
}

// settle asks until nothing is left that the service refuses: an object that cannot be read must not
// stop the others. It returns the gangs that it left out, and why, also with an error.
func (q *question) settle(ctx context.Context, service asker) (*kubernetesv1.PlaceObjectsResponse, map[key]string, error) {
	all := map[key]string{}
	for {
		answer, err := q.put(ctx, service)
		var failure *client.Error
		if err == nil || !errors.As(err, &failure) || len(failure.Violations) == 0 {
			return answer, all, err
		}
		refused, isLess := q.without(failure.Violations)
		maps.Copy(all, refused)
		switch {
		case !isLess:
			return nil, all, err
		case len(q.gangs) == 0:
			return &kubernetesv1.PlaceObjectsResponse{}, all, nil
		}
		klog.FromContext(ctx).Error(err, "the placement service refuses a part of the question; it is left out", "gangs", len(refused))
	}
}

// without leaves out what the service refused, and returns the gangs among it with the fault, and
// whether anything went. Where the fault is of what runs on a node, or is kept there, the node goes:
// what is free there is not known. With a base go the gangs that scale it.
func (q *question) without(violations []client.Violation) (refused map[key]string, isLess bool) {
	refused = map[key]string{}
	nodes := map[string]bool{}
	others := []client.Object{}
	entries := len(q.entries)
	for _, one := range violations {
		at, isKnown := q.find(one.Field)
		switch {
		case !isKnown:
		case at.gang != (key{}):
			refused[at.gang] = one.Field + ": " + one.Description
		case at.node != "":
			nodes[at.node] = true
		default:
			others = append(others, at.Object)
			for _, scaled := range q.gangs {
				if at.Key.Kind == podGangKind["kind"] && scaled.scales(key{Namespace: at.Key.Namespace, Name: at.Key.Name}) {
					refused[scaled.key] = one.Field + ": " + one.Description
				}
			}
		}
	}
	q.gangs = slices.DeleteFunc(q.gangs, func(one askedGang) bool { return refused[one.key] != "" })
	q.entries = slices.DeleteFunc(q.entries, func(one entry) bool {
		isWrong := slices.ContainsFunc(others, func(other client.Object) bool { return other.Key == one.Key })
		return refused[one.gang] != "" || (one.node != "" && nodes[one.node]) || isWrong
	})
	isLess = len(q.entries) < entries
	for _, one := range others {
		q.closeQueue(one)
	}
	return refused, isLess
}

// scales says whether a gang scales out this one.
func (g askedGang) scales(base key) bool {
	return g.key.Namespace == base.Namespace &&
		slices.ContainsFunc(g.waiting, func(pod *v1.Pod) bool { return pod.Labels[baseLabel] == base.Name })
}

// find is the entry that a field of a violation is about: "objects[Pod ml/a]...", or of what
// objects stand for "gangs[namespaces/ml/podgangs/g]..." and "snapshot.nodes[nodes/n]...".
func (q *question) find(field string) (entry, bool) {
	of, rest, _ := strings.Cut(field, "[")
	name, _, closed := strings.Cut(rest, "]")
	if !closed {
		return entry{}, false
	}
	if of == "gangs" {
		index := slices.IndexFunc(q.entries, func(one entry) bool {
			return one.Key.Kind == podGangKind["kind"] && name == "namespaces/"+one.Key.Namespace+"/podgangs/"+one.Key.Name
		})
		if index < 0 {
			return entry{}, false
		}
		return q.entries[index], true
	}
	index := slices.IndexFunc(q.entries, func(one entry) bool {
		switch of {
		case "objects":
			return one.Key.String() == name
		case "snapshot.nodes":
			return one.Key.Kind == "Node" && "nodes/"+one.Key.Name == name
		case "snapshot.pods":
			return one.Key.Kind == "Pod" && "namespaces/"+one.Key.Namespace+"/pods/"+one.Key.Name == name
		default:
			return false
		}
	})
	if index < 0 {
		return entry{}, false
	}
	return q.entries[index], true
}

// reasonsOf are the reasons of a gang that was not placed, in words.
func reasonsOf(result *placementv1.GangResult) string {
	var messages []string
	for _, reason := range result.GetReasons()[:min(len(result.GetReasons()), maxReasons)] {
		messages = append(messages, reason.GetMessage())
	}
	return cmp.Or(strings.Join(messages, " "), "the placement service has no place for the gang")
}
