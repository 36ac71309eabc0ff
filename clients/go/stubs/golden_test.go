package stubs_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	// What the types of the files are found by.
	_ "placement.example/clients/go/stubs/placement/kubernetes/v1"
	_ "placement.example/clients/go/stubs/placement/v1"
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

func read(t *testing.T, file string) []byte {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
