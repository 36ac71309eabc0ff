// A client of the placement service: deadlines, retries, typed errors, streams.
module placement.example/clients/go/client

go 1.24.0

require (
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260128011058-8636f8732409
	google.golang.org/grpc v1.79.3
	google.golang.org/protobuf v1.36.12
	placement.example/clients/go/stubs v0.0.0
)

require (
	golang.org/x/net v0.48.0 // indirect
	golang.org/x/sys v0.39.0 // indirect
	golang.org/x/text v0.32.0 // indirect
)

replace placement.example/clients/go/stubs => ../stubs
