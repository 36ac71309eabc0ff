package kubescheduler

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
)

// The service reads objects in Kubernetes' protobuf encoding by a table of fields, made here from the
// types of the API. What it reads then is held against examples, each in both encodings.
//
//	go test . -run Protobuf -update
const (
	fieldsFile   = "../../python/placement/kubernetes/schema/protobuf_fields.json"
	examplesFile = "../../../tests/kubernetes/schema/protobuf_examples.json"
)

var update = flag.Bool("update", false, "write the table of fields and the examples anew")

// read are the kinds with a protobuf encoding that translation reads; resources that are defined
// in the cluster have none.
var read = []runtime.Object{
	&v1.Node{}, &v1.NodeList{}, &v1.Pod{}, &v1.PodList{}, &v1.Namespace{}, &v1.NamespaceList{},
	&v1.PersistentVolume{}, &v1.PersistentVolumeList{}, &v1.PersistentVolumeClaim{}, &v1.PersistentVolumeClaimList{},
	&storagev1.StorageClass{}, &storagev1.StorageClassList{},
	&policyv1.PodDisruptionBudget{}, &policyv1.PodDisruptionBudgetList{},
	&schedulingv1.PriorityClass{}, &schedulingv1.PriorityClassList{},
	&schedulingv1alpha2.PodGroup{}, &schedulingv1alpha2.PodGroupList{},
	&schedulingv1alpha2.Workload{}, &schedulingv1alpha2.WorkloadList{},
	&resourcev1.ResourceClaim{}, &resourcev1.ResourceClaimList{}, &resourcev1.ResourceClaimTemplate{}, &resourcev1.ResourceClaimTemplateList{},
	&resourcev1.ResourceSlice{}, &resourcev1.ResourceSliceList{}, &resourcev1.DeviceClass{}, &resourcev1.DeviceClassList{},
	&resourcev1beta1.ResourceClaim{}, &resourcev1beta1.ResourceSlice{}, &resourcev1beta1.DeviceClass{}, &resourcev1beta1.ResourceClaimTemplate{},
	&resourcev1beta2.ResourceClaim{}, &resourcev1beta2.ResourceSlice{}, &resourcev1beta2.DeviceClass{}, &resourcev1beta2.ResourceClaimTemplate{},
	&batchv1.Job{}, &batchv1.JobList{}, &appsv1.Deployment{}, &appsv1.DeploymentList{}, &appsv1.StatefulSet{}, &appsv1.StatefulSetList{},
}

// leftOut are fields that are large and bear on nothing.
var leftOut = map[reflect.Type][]string{
	reflect.TypeFor[metav1.ObjectMeta](): {"managedFields"},
	reflect.TypeFor[v1.PodSpec]():        {"securityContext"},
	reflect.TypeFor[v1.PodStatus]():      {"containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"},
	reflect.TypeFor[v1.NodeStatus]():     {"images"},
	reflect.TypeFor[v1.Container](): {
		"env", "envFrom", "volumeMounts", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "securityContext",
	},
	reflect.TypeFor[v1.EphemeralContainerCommon](): {
		"env", "envFrom", "volumeMounts", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "securityContext",
	},
}

// special are types whose JSON is not that of their fields.
var special = map[reflect.Type]string{
	reflect.TypeFor[metav1.Time]():          "time",
	reflect.TypeFor[metav1.MicroTime]():     "microTime",
	reflect.TypeFor[resource.Quantity]():    "quantity",
	reflect.TypeFor[intstr.IntOrString]():   "intOrString",
	reflect.TypeFor[runtime.RawExtension](): "raw",
}

// A table says for each kind which type it is, and for each type by the number of a field: its name
// in JSON (empty for one whose fields are the type's own), what it holds (a type's index or a word),
// whether it is "list", "map" or "one", and whether its zero value is left out of JSON.
type table struct {
	Kinds map[string]int     `json:"kinds"`
	Types []map[string][]any `json:"types"`
	known map[reflect.Type]int
}

func newTable(t *testing.T) *table {
	t.Helper()
	made := &table{Kinds: map[string]int{}, known: map[reflect.Type]int{}}
	for _, object := range read {
		kinds, _, err := scheme.Scheme.ObjectKinds(object)
		if err != nil {
			t.Fatal(err)
		}
		version, kind := kinds[0].ToAPIVersionAndKind()
		made.Kinds[version+" "+kind] = made.add(t, reflect.TypeOf(object).Elem())
	}
	return made
}

func (a *table) add(t *testing.T, of reflect.Type) int {
	t.Helper()
	if index, isKnown := a.known[of]; isKnown {
		return index
	}
	fields := map[string][]any{}
	index := len(a.Types)
	a.known[of] = index
	a.Types = append(a.Types, fields)
	for field := range fieldsOf(of) {
		number := field.number(t)
		if number == "" || slices.Contains(leftOut[of], field.name()) {
			continue
		}
		shape, inner := "one", field.Type
		isPointer := inner.Kind() == reflect.Pointer
		switch {
		case isPointer:
			inner = inner.Elem()
		case inner.Kind() == reflect.Map:
			shape, inner = "map", inner.Elem()
		case inner.Kind() == reflect.Slice && inner.Elem().Kind() != reflect.Uint8:
			shape, inner = "list", inner.Elem()
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
		}
		var holds any
		if word, is := special[inner]; is {
			holds = word
		} else if inner.Kind() == reflect.Struct {
			holds = a.add(t, inner)
		} else {
			holds = scalar(t, of, field, inner)
		}
		isDropped := shape == "one" && !isPointer && field.omits(inner)
		fields[number] = []any{field.name(), holds, shape, isDropped}
	}
	return index
}

func scalar(t *testing.T, of reflect.Type, field apiField, inner reflect.Type) string {
	t.Helper()
	switch inner.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "bool"
	case reflect.Slice:
		return "bytes"
	case reflect.Int32, reflect.Int64:
		return "int"
	}
	t.Fatalf("%s.%s: what is %s?", of, field.Name, inner)
	return ""
}

type apiField struct{ reflect.StructField }

func fieldsOf(of reflect.Type) func(func(apiField) bool) {
	return func(yield func(apiField) bool) {
		for i := range of.NumField() {
			if !yield(apiField{of.Field(i)}) {
				return
			}
		}
	}
}

// number is that of the field in protobuf, empty when it has none.
func (f apiField) number(t *testing.T) string {
	t.Helper()
	parts := strings.Split(f.Tag.Get("protobuf"), ",")
	if len(parts) < 2 {
		return ""
	}
	if _, err := strconv.Atoi(parts[1]); err != nil {
		t.Fatal(err)
	}
	return parts[1]
}

func (f apiField) name() string { return strings.Split(f.Tag.Get("json"), ",")[0] }

// omits says whether JSON leaves the zero value out.
func (f apiField) omits(inner reflect.Type) bool {
	options := strings.Split(f.Tag.Get("json"), ",")[1:]
	return slices.Contains(options, "omitzero") || (slices.Contains(options, "omitempty") && inner.Kind() != reflect.Struct)
}

func TestTheTableOfProtobufFieldsIsThatOfTheAPI(t *testing.T) {
	hold(t, fieldsFile, newTable(t))
}

// isLong are those of which no full example is needed: the others have all that they do.
var isLong = map[reflect.Type]bool{
	reflect.TypeFor[*v1.PodList]():        true,
	reflect.TypeFor[*batchv1.JobList]():   true,
	reflect.TypeFor[*appsv1.Deployment](): true, reflect.TypeFor[*appsv1.DeploymentList](): true,
	reflect.TypeFor[*appsv1.StatefulSet](): true, reflect.TypeFor[*appsv1.StatefulSetList](): true,
	reflect.TypeFor[*v1.PersistentVolumeList](): true, reflect.TypeFor[*v1.PersistentVolumeClaimList](): true,
	reflect.TypeFor[*batchv1.Job](): true,
}

// An example is an object in both encodings.
type example struct {
	Protobuf []byte         `json:"protobuf"`
	Object   map[string]any `json:"object"`
}

func TestTheExamplesOfProtobufAreThoseOfTheAPI(t *testing.T) {
	writer := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	var examples []example
	for _, object := range read {
		for _, isFull := range []bool{true, false} {
			one := reflect.New(reflect.TypeOf(object).Elem())
			if isFull && isLong[reflect.TypeOf(object)] {
				continue
			}
			if isFull {
				fill(one.Elem(), 0)
			}
			typed := one.Interface().(runtime.Object)
			kinds, _, err := scheme.Scheme.ObjectKinds(typed)
			if err != nil {
				t.Fatal(err)
			}
			typed.GetObjectKind().SetGroupVersionKind(kinds[0])
			var content bytes.Buffer
			if err := writer.Encode(typed, &content); err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(typed)
			if err != nil {
				t.Fatal(err)
			}
			written := example{Protobuf: content.Bytes()}
			if err := json.Unmarshal(text, &written.Object); err != nil {
				t.Fatal(err)
			}
			examples = append(examples, written)
		}
	}
	hold(t, examplesFile, examples)
}

// fill sets every field that has a number, lists to one element; deep down it stops.
func fill(value reflect.Value, depth int) {
	switch value.Type() {
	case reflect.TypeFor[metav1.Time]():
		value.Set(reflect.ValueOf(metav1.Unix(1_790_000_000+int64(depth), 0)))
		return
	case reflect.TypeFor[metav1.MicroTime]():
		value.Set(reflect.ValueOf(metav1.NewMicroTime(metav1.Unix(1_790_000_000, 123_456_000).Time)))
		return
	case reflect.TypeFor[resource.Quantity]():
		value.Set(reflect.ValueOf(resource.MustParse("1500m")))
		return
	case reflect.TypeFor[intstr.IntOrString]():
		value.Set(reflect.ValueOf([]intstr.IntOrString{intstr.FromString("30%"), intstr.FromInt32(-3)}[depth%2]))
		return
	case reflect.TypeFor[runtime.RawExtension]():
		value.Set(reflect.ValueOf(runtime.RawExtension{Raw: []byte(`{"a":[1,"b"]}`)}))
		return
	case reflect.TypeFor[metav1.FieldsV1]():
		return
	}
	switch value.Kind() {
	case reflect.Pointer:
		value.Set(reflect.New(value.Type().Elem()))
		if depth < 8 {
			fill(value.Elem(), depth+1)
		}
	case reflect.Struct:
		for i := range value.NumField() {
			if value.Type().Field(i).Tag.Get("protobuf") != "" {
				fill(value.Field(i), depth+1)
			}
		}
	case reflect.Slice:
		if value.Type().Elem().Kind() == reflect.Uint8 {
			value.SetBytes([]byte{0, 200, 7})
			return
		}
		value.Set(reflect.MakeSlice(value.Type(), 2, 2))
		fill(value.Index(0), depth+1) // The other one stays empty.
	case reflect.Map:
		value.Set(reflect.MakeMap(value.Type()))
		inner := reflect.New(value.Type().Elem()).Elem()
		fill(inner, depth+1)
		value.SetMapIndex(reflect.ValueOf("größe").Convert(value.Type().Key()), inner)
	case reflect.String:
		value.SetString("text " + strconv.Itoa(depth))
	case reflect.Bool:
		value.SetBool(true)
	case reflect.Int32, reflect.Int64:
		value.SetInt(-5 + int64(depth)*100)
	}
}

// hold holds a value against a file, or writes it.
func hold(t *testing.T, file string, value any) {
	t.Helper()
	if _, err := os.Stat(filepath.Dir(file)); err != nil {
		t.Skip("this is not the repository")
	}
	content, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	// An entry of the outer lists a line, so that changes show.
	content = bytes.ReplaceAll(content, []byte(`},{`), []byte("},\n{"))
	content = append(content, '\n')
	if *update {
		if err := os.WriteFile(file, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	before, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(before, content) {
		t.Fatalf("%s is not what the API says; go test . -run Protobuf -update (%v)", file, err)
	}
}
