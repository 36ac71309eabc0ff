// The messages and services of placement.v1 and placement.kubernetes.v1, generated from proto/
// (`make proto`) and nothing else: who only wants stubs inherits gRPC and protobuf alone.
module placement.example/clients/go/stubs

go 1.24.0

require (
	// What Kubernetes 1.36 takes, so that a plugin does not change its scheduler's gRPC.
	google.golang.org/grpc v1.79.3
	// Of the compiler of the stubs.
	google.golang.org/protobuf v1.36.12
)

require (
	golang.org/x/net v0.48.0 // indirect
	golang.org/x/sys v0.39.0 // indirect
	golang.org/x/text v0.32.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20251202230838-ff82c1b0f217 // indirect
)
