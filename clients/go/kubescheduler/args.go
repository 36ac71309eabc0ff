package kubescheduler

import (
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"placement.example/clients/go/client"
)

// Args are the plugin's settings: `pluginConfig[].args` of the scheduler's configuration.
type Args struct {
	// Service is the address of the placement service, such as "placement.svc:50051". Required.
	Service string `json:"service"`
	// TLS reaches the service by TLS. Absent means plain text.
	TLS *TLS `json:"tls,omitempty"`
	// Timeout ends a question to the service. Default 10s.
	Timeout metav1.Duration `json:"timeout,omitempty"`
	// TimeLimit is how long the service may search. Default half of Timeout.
	TimeLimit metav1.Duration `json:"timeLimit,omitempty"`
	// BatchWindow is waited for further gangs before the service is asked. Default 100ms.
	BatchWindow metav1.Duration `json:"batchWindow,omitempty"`
	// FallbackAfter is how long a complete gang waits for a service that does not answer. Then
	// the scheduler places it by itself, still whole or not at all. Default 30s; a negative time
	// means that gangs wait until the service is back.
	FallbackAfter metav1.Duration `json:"fallbackAfter,omitempty"`
	// PermitTimeout is how long pods that have a node wait for the others of their gang.
	// Default 1m, at most 15m. An answer is used for as long.
	PermitTimeout metav1.Duration `json:"permitTimeout,omitempty"`
	// RetryAfter is when gangs that were not placed are asked about again, if the cluster did
	// not change before. Default 30s.
	RetryAfter metav1.Duration `json:"retryAfter,omitempty"`
	// AlsoSend names kinds whose objects go along with each question, as resource.version.group:
	// "queues.v2.scheduling.run.ai", "reservations.v1alpha1.scheduling.koordinator.sh". The
	// scheduler must be allowed to list and watch them.
	AlsoSend []string `json:"alsoSend,omitempty"`
}

// TLS names PEM files.
type TLS struct {
	CA          string `json:"ca,omitempty"`
	Certificate string `json:"certificate,omitempty"`
	Key         string `json:"key,omitempty"`
	ServerName  string `json:"serverName,omitempty"`
}

var (
	pluginDefaults = Args{
		Timeout:       metav1.Duration{Duration: 10 * time.Second},
		BatchWindow:   metav1.Duration{Duration: 100 * time.Millisecond},
		FallbackAfter: metav1.Duration{Duration: 30 * time.Second},
		PermitTimeout: metav1.Duration{Duration: time.Minute},
		RetryAfter:    metav1.Duration{Duration: 30 * time.Second},
	}
	// The scheduler does nothing else while this plugin asks.
	podGroupDefaults = Args{Timeout: metav1.Duration{Duration: 2 * time.Second}}
)

// maxPermit is the most that kube-scheduler lets a pod wait in Permit.
const maxPermit = 15 * time.Minute

// parseArgs reads the arguments strictly: a misspelled one must not be overlooked.
// The plugin sets what the arguments leave out.
func parseArgs(name string, object runtime.Object, defaults Args) (Args, error) {
	var args Args
	switch object := object.(type) {
	case nil:
	case *runtime.Unknown:
		content, err := yaml.YAMLToJSONStrict(object.Raw)
		if err == nil && string(content) != "null" {
			var faults []error
			faults, err = json.UnmarshalStrict(content, &args)
			err = errors.Join(append(faults, err)...)
		}
		if err != nil {
			return args, fmt.Errorf("arguments of plugin %s: %w", name, err)
		}
	default:
		return args, fmt.Errorf("arguments of plugin %s are a %T", name, object)
	}
	var faults []error
	if args.Service == "" {
		faults = append(faults, errors.New("service: is missing"))
	}
	setDefault(&args.Timeout, defaults.Timeout.Duration)
	setDefault(&args.TimeLimit, args.Timeout.Duration/2)
	setDefault(&args.BatchWindow, defaults.BatchWindow.Duration)
	setDefault(&args.FallbackAfter, defaults.FallbackAfter.Duration)
	setDefault(&args.PermitTimeout, defaults.PermitTimeout.Duration)
	setDefault(&args.RetryAfter, defaults.RetryAfter.Duration)
	for _, one := range []struct {
		name  string
		value metav1.Duration
	}{
		{"timeout", args.Timeout}, {"timeLimit", args.TimeLimit}, {"batchWindow", args.BatchWindow},
		{"permitTimeout", args.PermitTimeout}, {"retryAfter", args.RetryAfter},
	} {
		if one.value.Duration < 0 {
			faults = append(faults, fmt.Errorf("%s: must not be negative", one.name))
		}
	}
	for _, name := range args.AlsoSend {
		if _, err := parseResource(name); err != nil {
			faults = append(faults, err)
		}
	}
	if args.PermitTimeout.Duration > maxPermit {
		faults = append(faults, fmt.Errorf("permitTimeout: is more than %s", maxPermit))
	}
	if args.TimeLimit.Duration >= args.Timeout.Duration {
		faults = append(faults, errors.New("timeLimit: must be less than timeout, or no answer is in time"))
	}
	if err := errors.Join(faults...); err != nil {
		return args, fmt.Errorf("arguments of plugin %s: %w", name, err)
	}
	return args, nil
}

func setDefault(value *metav1.Duration, otherwise time.Duration) {
	if value.Duration == 0 {
		value.Duration = otherwise
	}
}

func (a Args) options() []client.Option {
	// This plugin does not repeat a question, but asks a new one with the state of that time.
	options := []client.Option{client.WithTimeout(a.Timeout.Duration), client.WithBackoff(client.Backoff{})}
	if a.TLS != nil {
		options = append(options, client.WithTLS(client.TLSFiles{
			CA: a.TLS.CA, Certificate: a.TLS.Certificate, Key: a.TLS.Key, ServerName: a.TLS.ServerName,
		}))
	}
	return options
}
