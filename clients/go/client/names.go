package client

import (
	"fmt"
	"strings"
)

// NodeName is the node in "nodes/{node}".
func NodeName(resource string) (string, error) {
	name, found := strings.CutPrefix(resource, "nodes/")
	if !found || name == "" || strings.Contains(name, "/") {
		return "", fmt.Errorf("client: %q is not nodes/{node}", resource)
	}
	return name, nil
}

// PodName is namespace and name in "namespaces/{namespace}/pods/{pod}".
func PodName(resource string) (namespace, name string, err error) {
	return namespaced(resource, "pods")
}

// GangName is namespace and name in "namespaces/{namespace}/podgangs/{podgang}".
func GangName(resource string) (namespace, name string, err error) {
	return namespaced(resource, "podgangs")
}

func namespaced(resource, kind string) (namespace, name string, err error) {
	parts := strings.Split(resource, "/")
	if len(parts) != 4 || parts[0] != "namespaces" || parts[2] != kind || parts[1] == "" || parts[3] == "" {
		return "", "", fmt.Errorf("client: %q is not namespaces/{namespace}/%s/{name}", resource, kind)
	}
	return parts[1], parts[3], nil
}
