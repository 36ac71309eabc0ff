package stubs_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	// What the types of the files are found by.
	_ "placement.example/clients/go/stubs/placement/kubernetes/v1"
	placementv1 "placement.example/clients/go/stubs/placement/v1"
)

// golden holds messages in JSON, each with the bytes that every language makes of it.
const golden = "../../../tests/golden"

func TestAMessageInJSONHasTheBytesOfEveryLanguage(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(golden, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files in %s: %v", golden, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			kind, err := protoregistry.GlobalTypes.FindMessageByName(
				protoreflect.FullName(name[:strings.LastIndex(name, ".")]))
			if err != nil {
				t.Fatal(err)
			}
			fromJSON, fromBytes := kind.New().Interface(), kind.New().Interface()
			if err := protojson.Unmarshal(read(t, file), fromJSON); err != nil {
				t.Fatal(err)
			}
			want := read(t, strings.TrimSuffix(file, ".json")+".binpb")
			got, err := proto.MarshalOptions{Deterministic: true}.Marshal(fromJSON)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%d bytes that differ from the %d of the golden file", len(got), len(want))
			}
			if err := proto.Unmarshal(want, fromBytes); err != nil {
				t.Fatal(err)
			}
			if !proto.Equal(fromBytes, fromJSON) {
				t.Error("the golden bytes are another message")
			}
		})
	}
}

// A snapshot's digest can be computed in any language (see Placement.snapshot_digest). These
// messages hold no map keys of which one begins another, so Go's own encoding is the canonical one.
func TestASnapshotHasTheDigestOfEveryLanguage(t *testing.T) {
	var digests map[string]string
	if err := json.Unmarshal(read(t, filepath.Join(golden, "digests", "snapshots.json")), &digests); err != nil {
		t.Fatal(err)
	}
	if len(digests) == 0 {
		t.Fatal("no digests")
	}
	for name, want := range digests {
		request := &placementv1.ComputePlacementRequest{}
		if err := protojson.Unmarshal(read(t, filepath.Join(golden, name)), request); err != nil {
			t.Fatal(err)
		}
		nodes := hashOf(t, request.GetSnapshot().GetNodes())
		pods := hashOf(t, request.GetSnapshot().GetPods())
		sum := sha256.Sum256(append(nodes[:], pods[:]...))
		if got := "sha256:" + hex.EncodeToString(sum[:]); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// hashOf is the hash of the hashes of some messages in order of their names.
func hashOf[M interface {
	proto.Message
	GetName() string
}](t *testing.T, messages []M) [sha256.Size]byte {
	t.Helper()
	ordered := slices.Clone(messages)
	slices.SortFunc(ordered, func(a, b M) int { return strings.Compare(a.GetName(), b.GetName()) })
	var hashes []byte
	for _, message := range ordered {
		content, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(content)
		hashes = append(hashes, sum[:]...)
	}
	return sha256.Sum256(hashes)
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
