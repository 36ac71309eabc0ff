package kubescheduler

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// state is what the plugin knows of gangs: their pods, which node was answered for each, and which
// pods have one already.
//
// The scheduling queue calls some of this with its lock held. So nothing here calls back into
// the scheduler while it holds its own lock: methods return what is to be done instead.
type state struct {
	scheduler string
	now       func() time.Time
	// wake tells the planner that something changed.
	wake chan struct{}

	mutex    sync.RWMutex
	gangs    map[key]*gang
	gangOf   map[types.UID]key
	podGangs map[key]*unstructured.Unstructured
	// assumed are the nodes of pods that have one in the scheduler and not yet in the API: they wait
	// in Permit or are being bound. They take room, whether or not they are of a gang.
	assumed map[types.UID]string
	// version counts the changes of the cluster that may give a gang room.
	version uint64
}

// A gang is the pods that name it, and their states.
type gang struct {
	key  key
	pods map[types.UID]*v1.Pod
	// since and priority order the queue. They never change: a heap must stay one.
	since    time.Time
	priority int32

	shape   shape
	fault   error
	isStale bool // the shape is older than the pods or the PodGang

	// planned are the answered nodes of pods that have none yet; void after plannedUntil.
	planned      map[types.UID]string
	plannedUntil time.Time
	// releasing are pods that were told to give back their nodes and have not done so yet.
	releasing map[types.UID]bool
	// isAlone is true while the scheduler places the gang without the service; sentAlone are the
	// pods that were put into its queue for that.
	isAlone   bool
	sentAlone map[types.UID]bool
	// aloneUntil is when the service may be asked about it again.
	aloneUntil time.Time
	// silentSince is when the first question without an answer was asked; zero if none.
	silentSince time.Time

	// answered says for which pods and version there was an answer; failures counts the plans
	// that could not be carried out, one after the other; notBefore is when to ask again.
	answered  answered
	failures  int
	notBefore time.Time
	// message is why the pods wait, for people.
	message string
}

type answered struct {
	pods    string
	version uint64
	at      time.Time
}

func newState(scheduler string, now func() time.Time) *state {
	return &state{
		scheduler: scheduler,
		now:       now,
		wake:      make(chan struct{}, 1),
		gangs:     map[key]*gang{},
		gangOf:    map[types.UID]key{},
		podGangs:  map[key]*unstructured.Unstructured{},
		assumed:   map[types.UID]string{},
	}
}

func (s *state) signal() {
	select {
	case s.wake <- struct{}{}:
	default: // The planner looks at everything when it wakes.
	}
}

// --- What is there ---

// observe records a pod as it is now.
func (s *state) observe(pod *v1.Pod) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if pod.Spec.NodeName != "" {
		delete(s.assumed, pod.UID)
	}
	of, isMember := gangOf(pod)
	if before, was := s.gangOf[pod.UID]; was && (before != of || !isMember) {
		s.removeLocked(pod.UID)
	}
	if !isMember || isFinished(pod) {
		s.removeLocked(pod.UID)
		return
	}
	g := s.gangs[of]
	if g == nil {
		g = &gang{
			key: of, since: s.now(), priority: priorityOf(pod),
			pods: map[types.UID]*v1.Pod{}, releasing: map[types.UID]bool{},
		}
		s.gangs[of] = g
	}
	g.pods[pod.UID] = pod
	g.isStale = true
	s.gangOf[pod.UID] = of
	if pod.Spec.NodeName != "" {
		delete(g.planned, pod.UID)
		delete(g.releasing, pod.UID)
	}
	s.signal()
}

// forget records that a pod is gone.
func (s *state) forget(pod *v1.Pod) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.assumed, pod.UID)
	s.removeLocked(pod.UID)
}

func (s *state) removeLocked(uid types.UID) {
	g := s.gangs[s.gangOf[uid]]
	if g == nil {
		return
	}
	delete(s.gangOf, uid)
	delete(g.pods, uid)
	delete(g.planned, uid)
	delete(g.releasing, uid)
	g.isStale = true
	if len(g.pods) == 0 {
		delete(s.gangs, g.key)
	}
}

// observePodGang records a PodGang as it is now; nil when it is gone.
func (s *state) observePodGang(of key, object *unstructured.Unstructured) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if object == nil {
		delete(s.podGangs, of)
	} else {
		s.podGangs[of] = object
	}
	if g := s.gangs[of]; g != nil {
		g.isStale = true
		g.answered = answered{}
	}
	s.signal()
}

// clusterChanged records that there may be room now for gangs that had none.
func (s *state) clusterChanged() {
	s.mutex.Lock()
	s.version++
	s.mutex.Unlock()
	s.signal()
}

// --- What the scheduler asks ---

// A verdict is what to do with a pod. A pod without a gang is free.
type verdict struct {
	// node that was answered; empty when there is none.
	node string
	// isFree is true when the scheduler chooses the node.
	isFree bool
	// shape of the gang that the scheduler places alone.
	alone *gangView
	// message is why the pod waits, when it does.
	message string
}

// gangView is what is needed to keep a gang together without an answer.
type gangView struct {
	shape shape
	group string
	// nodes of the pods that have one, by group.
	nodes map[string][]string
}

// judge says what to do with a pod now.
func (s *state) judge(pod *v1.Pod) verdict {
	if _, isMember := gangOf(pod); !isMember {
		return verdict{isFree: true}
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	// Pods are added by the informer alone: a queue may still hold one that is gone already.
	g := s.gangs[s.gangOf[pod.UID]]
	if g == nil {
		return verdict{message: "the gang of the pod is not known yet"}
	}
	s.refreshLocked(g)
	if node := g.planned[pod.UID]; node != "" && s.now().Before(g.plannedUntil) {
		return verdict{node: node}
	}
	if g.fault != nil {
		return verdict{message: g.fault.Error()}
	}
	if missing := s.missingLocked(g); missing != "" {
		return verdict{message: missing}
	}
	if g.isAlone {
		return verdict{isFree: true, alone: s.viewLocked(g, pod)}
	}
	if g.message != "" {
		return verdict{message: g.message}
	}
	return verdict{message: "the placement service is asked where the gang may run"}
}

// assume records that a pod has a node in the scheduler. It returns false when the answer meanwhile
// names another node.
func (s *state) assume(pod *v1.Pod, node string) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if g := s.gangs[s.gangOf[pod.UID]]; g != nil {
		if planned := g.planned[pod.UID]; planned != "" && planned != node {
			return false
		}
	}
	s.assumed[pod.UID] = node
	return true
}

// isWhole says whether every group of a pod's gang has its least number of pods with a node;
// then the others, returned, need not wait any longer.
func (s *state) isWhole(pod *v1.Pod) (others []types.UID, whole bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	g := s.gangs[s.gangOf[pod.UID]]
	if g == nil {
		return nil, true
	}
	s.refreshLocked(g)
	have := map[string]int{}
	for uid, one := range g.pods {
		if one.DeletionTimestamp == nil && s.nodeLocked(one) != "" {
			have[g.shape.group[nameOf(one)]]++
			if uid != pod.UID {
				others = append(others, uid)
			}
		}
	}
	for group, least := range g.shape.groups {
		if have[group] < least {
			return nil, false
		}
	}
	g.failures = 0
	return others, true
}

// giveUp takes back what was answered for the gang of a pod that has no node, or lost it. It
// returns the pods whose nodes are to be given back, so that no pod holds a node and waits; the
// caller rejects them, and says by keep which of them it could not.
func (s *state) giveUp(pod *v1.Pod, why string) []types.UID {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.assumed, pod.UID)
	g := s.gangs[s.gangOf[pod.UID]]
	if g == nil {
		return nil
	}
	if g.releasing[pod.UID] { // It does what it was told.
		delete(g.releasing, pod.UID)
		s.signal()
		return nil
	}
	if len(g.planned) > 0 {
		g.planned = nil
		g.failures++
		g.notBefore = s.now().Add(backoff(g.failures))
		g.message = why
		if g.failures >= maxFailures {
			// The scheduler refuses the answers of the service repeatedly: one of them knows of a rule that
			// the other does not. Then the scheduler decides.
			g.failures = 0
			g.isAlone, g.sentAlone, g.aloneUntil = true, map[types.UID]bool{}, s.now().Add(aloneFor)
		}
	}
	g.answered = answered{}
	var held []types.UID
	for uid := range g.pods {
		if s.assumed[uid] != "" && !g.releasing[uid] {
			g.releasing[uid] = true
			held = append(held, uid)
		}
	}
	s.signal()
	return held
}

// keep records that a pod is being bound already and gives nothing back.
func (s *state) keep(uid types.UID) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if g := s.gangs[s.gangOf[uid]]; g != nil {
		delete(g.releasing, uid)
	}
}

// --- What the planner asks ---

// waitingLocked are the pods of a complete gang that need a node.
func (s *state) waitingLocked(g *gang) []*v1.Pod {
	var waiting []*v1.Pod
	isPlanned := s.now().Before(g.plannedUntil)
	for uid, pod := range g.pods {
		if s.isReady(pod) && s.assumed[uid] == "" && !(isPlanned && g.planned[uid] != "") {
			waiting = append(waiting, pod)
		}
	}
	slices.SortFunc(waiting, func(a, b *v1.Pod) int { return compareNames(nameOf(a), nameOf(b)) })
	return waiting
}

// isReady says whether a pod may be given a node by this scheduler.
func (s *state) isReady(pod *v1.Pod) bool {
	return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && len(pod.Spec.SchedulingGates) == 0 &&
		pod.Spec.SchedulerName == s.scheduler
}

// nodeLocked is where a pod runs, or is about to; empty when nowhere.
func (s *state) nodeLocked(pod *v1.Pod) string {
	if pod.Spec.NodeName != "" {
		return pod.Spec.NodeName
	}
	return s.assumed[pod.UID]
}

// missingLocked says which pods a gang lacks to be complete; empty when none.
func (s *state) missingLocked(g *gang) string {
	have := map[string]int{}
	for _, pod := range g.pods {
		if (pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil) || s.isReady(pod) {
			have[g.shape.group[nameOf(pod)]]++
		}
	}
	var missing []string
	for _, group := range slices.Sorted(maps.Keys(g.shape.groups)) {
		if least := g.shape.groups[group]; have[group] < least {
			missing = append(missing, fmt.Sprintf("group %s has %d of %d pods", group, have[group], least))
		}
	}
	if len(missing) == 0 {
		return ""
	}
	return fmt.Sprintf("gang %s is not complete: %s", g.key.Name, strings.Join(missing, ", "))
}

// refreshLocked reads the shape of a gang anew, if it may have changed.
func (s *state) refreshLocked(g *gang) {
	if !g.isStale {
		return
	}
	g.isStale = false
	g.fault = nil
	var plain []*v1.Pod
	isGrove := false
	for _, pod := range g.pods {
		if pod.Labels[GroveLabel] != "" {
			isGrove = true
		} else if pod.DeletionTimestamp == nil {
			plain = append(plain, pod)
		}
	}
	object := s.podGangs[g.key]
	switch {
	case (isGrove || object != nil) && len(plain) > 0:
		g.fault = fmt.Errorf("gang %s: pods with annotation %s and a PodGang share the name", g.key.Name, GangAnnotation)
	case object != nil:
		g.shape = shapeOfPodGang(object)
	case isGrove:
		g.fault = fmt.Errorf("PodGang %s is not there", g.key.Name)
	default:
		slices.SortFunc(plain, func(a, b *v1.Pod) int { return compareNames(nameOf(a), nameOf(b)) })
		g.shape, g.fault = shapeOfPods(plain)
	}
}

func (s *state) viewLocked(g *gang, pod *v1.Pod) *gangView {
	view := &gangView{shape: g.shape, group: g.shape.group[nameOf(pod)], nodes: map[string][]string{}}
	for _, one := range g.pods {
		if node := s.nodeLocked(one); node != "" && one.UID != pod.UID {
			group := g.shape.group[nameOf(one)]
			view.nodes[group] = append(view.nodes[group], node)
		}
	}
	return view
}

func isFinished(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

// oldest is when the first pod of a gang was made.
func (g *gang) oldest() metav1.Time {
	var oldest metav1.Time
	for _, pod := range g.pods {
		if made := pod.CreationTimestamp; oldest.IsZero() || made.Before(&oldest) {
			oldest = made
		}
	}
	return oldest
}

const (
	// maxFailures is how many answers in a row may fail before a gang goes without.
	maxFailures = 5
	// aloneFor is how long it goes without, at least.
	aloneFor = time.Minute
)

// backoff grows from a fifth of a second to ten.
func backoff(failures int) time.Duration {
	return min(200*time.Millisecond<<min(failures-1, 10), 10*time.Second)
}
