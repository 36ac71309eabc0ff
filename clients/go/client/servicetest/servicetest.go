// Package servicetest runs the real placement service inside a test, on a free port of loopback.
package servicetest

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// patience is longer than a start takes, also on a busy machine.
const patience = 90 * time.Second

var listening = regexp.MustCompile(`serving on (127\.0\.0\.1:\d+)`)

// Service is the service in a process of its own.
type Service struct {
	// Target is its address.
	Target  string
	process *os.Process
	ended   chan struct{}
}

// Start starts the service with further settings, such as "PLACEMENT_MAX_PENDING=0", and ends it
// with the test. The test is skipped, with the reason, where the service is not installed.
func Start(t testing.TB, settings ...string) *Service {
	t.Helper()
	command := exec.Command(python(t), "-m", "placement_service")
	// The service refuses settings that it does not know, such as PLACEMENT_PYTHON.
	command.Env = slices.DeleteFunc(os.Environ(), func(one string) bool { return strings.HasPrefix(one, "PLACEMENT_") })
	command.Env = append(command.Env, "PLACEMENT_HOST=127.0.0.1", "PLACEMENT_PORT=0", "PLACEMENT_LOG_FORMAT=text")
	command.Env = append(command.Env, settings...)
	// Its solver processes end with it, and it with us.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	log, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	s := &Service{process: command.Process, ended: make(chan struct{})}
	target := make(chan string, 1)
	go func() {
		defer close(s.ended)
		lines := bufio.NewScanner(log)
		for lines.Scan() {
			t.Logf("service: %s", lines.Text())
			if found := listening.FindStringSubmatch(lines.Text()); found != nil {
				target <- found[1]
			}
		}
		_ = command.Wait() // How it ends is up to the test.
	}()
	t.Cleanup(s.Kill)
	select {
	case s.Target = <-target:
	case <-s.ended:
		t.Fatal("the service ended instead of serving; its log is above")
	case <-time.After(patience):
		t.Fatalf("the service did not serve within %s", patience)
	}
	s.waitUntilReady(t)
	return s
}

// waitUntilReady returns when calls can be computed: on a busy machine it takes a while until
// the processes are loaded.
func (s *Service) waitUntilReady(t testing.TB) {
	t.Helper()
	connection, err := grpc.NewClient(s.Target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	health := grpc_health_v1.NewHealthClient(connection)
	for {
		answer, err := health.Check(ctx, &grpc_health_v1.HealthCheckRequest{}, grpc.WaitForReady(true))
		if err == nil && answer.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING {
			return
		}
		select {
		case <-s.ended:
			t.Fatal("the service ended instead of serving; its log is above")
		case <-ctx.Done():
			t.Fatalf("the service was not ready within %s", patience)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Kill ends the service at once, as a crash would.
func (s *Service) Kill() {
	_ = syscall.Kill(-s.process.Pid, syscall.SIGKILL) // It may have ended.
	<-s.ended
}

// Stop suspends the service, as a hang would: connections stay, and nothing answers.
func (s *Service) Stop() error { return syscall.Kill(-s.process.Pid, syscall.SIGSTOP) }

// Continue resumes a suspended service.
func (s *Service) Continue() error { return syscall.Kill(-s.process.Pid, syscall.SIGCONT) }

// python is the interpreter that has the service: that of PLACEMENT_PYTHON, of the .venv in a
// folder above, or of the path.
func python(t testing.TB) string {
	t.Helper()
	candidates := []string{os.Getenv("PLACEMENT_PYTHON")}
	if folder, err := os.Getwd(); err == nil {
		for ; folder != filepath.Dir(folder); folder = filepath.Dir(folder) {
			candidates = append(candidates, filepath.Join(folder, ".venv", "bin", "python"))
		}
	}
	for _, candidate := range append(candidates, "python3") {
		if candidate != "" && hasService(candidate) {
			return candidate
		}
	}
	t.Skip("no Python with the placement service: run `make setup`, or set PLACEMENT_PYTHON")
	return ""
}

func hasService(python string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return exec.CommandContext(ctx, python, "-c", "import placement_service.api.server").Run() == nil
}
