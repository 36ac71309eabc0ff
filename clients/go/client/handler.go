package client

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
)

// A Handler keeps the objects of one kind in a session as an informer shows them. It has the methods
// of client-go's cache.ResourceEventHandler, so that this module needs no client-go.
type Handler struct {
	session          *ObjectsSession
	apiVersion, kind string
}

// Handler is to be added to an informer of that kind: objects of typed informers do not name their
// kind.
func (s *ObjectsSession) Handler(apiVersion, kind string) *Handler {
	return &Handler{s, apiVersion, kind}
}

// OnAdd sets an object.
func (h *Handler) OnAdd(object any, _ bool) { h.set(object) }

// OnUpdate sets an object.
func (h *Handler) OnUpdate(_, object any) { h.set(object) }

// OnDelete removes an object, also one of which the informer has only the key.
func (h *Handler) OnDelete(object any) {
	if known, is := object.(metadata); is {
		h.session.Remove(h.key(known.GetNamespace(), known.GetName()))
		return
	}
	// cache.DeletedFinalStateUnknown, whose Key is "namespace/name" or "name".
	if value := reflect.Indirect(reflect.ValueOf(object)); value.Kind() == reflect.Struct {
		if key := value.FieldByName("Key"); key.IsValid() && key.Kind() == reflect.String {
			namespace, name, isNamespaced := strings.Cut(key.String(), "/")
			if !isNamespaced {
				namespace, name = "", namespace
			}
			h.session.Remove(h.key(namespace, name))
		}
	}
}

// metadata is what every object of Kubernetes has (metav1.Object).
type metadata interface {
	GetNamespace() string
	GetName() string
}

func (h *Handler) set(object any) {
	known, is := object.(metadata)
	if !is {
		return
	}
	key := h.key(known.GetNamespace(), known.GetName())
	content, err := Encode(h.apiVersion, h.kind, object)
	if err != nil {
		// An object that cannot be encoded must not be sent in its old form.
		slog.Error("an object cannot be encoded", "object", key.String(), "error", err)
		h.session.Remove(key)
		return
	}
	h.session.Set(Object{key, content})
}

func (h *Handler) key(namespace, name string) ObjectKey {
	return ObjectKey{h.apiVersion, h.kind, namespace, name}
}

// Encode writes an object in JSON as the service wants it: with apiVersion and kind, which objects
// of typed informers lack, and without managedFields.
func Encode(apiVersion, kind string, object any) ([]byte, error) {
	content, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(content, &fields); err != nil {
		return nil, fmt.Errorf("client: not an object: %w", err)
	}
	for name, text := range map[string]string{"apiVersion": apiVersion, "kind": kind} {
		if fields[name], err = json.Marshal(text); err != nil {
			return nil, err
		}
	}
	if bytes.Contains(fields["metadata"], []byte(`"managedFields"`)) {
		inner := map[string]json.RawMessage{}
		if err := json.Unmarshal(fields["metadata"], &inner); err != nil {
			return nil, err
		}
		delete(inner, "managedFields")
		if fields["metadata"], err = json.Marshal(inner); err != nil {
			return nil, err
		}
	}
	return json.Marshal(fields)
}
