// Command placement-scheduler is kube-scheduler with the plugin that places gangs as the placement
// service answers:
//
//	go build -o placement-scheduler .
//	./placement-scheduler --config scheduler.yaml
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	"placement.example/clients/go/kubescheduler"
)

func main() {
	os.Exit(cli.Run(app.NewSchedulerCommand(
		app.WithPlugin(kubescheduler.Name, kubescheduler.New),
		app.WithPlugin(kubescheduler.PodGroupsName, kubescheduler.NewPodGroups),
	)))
}
