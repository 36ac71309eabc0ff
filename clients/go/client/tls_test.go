package client_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"placement.example/clients/go/client"
	placementv1 "placement.example/clients/go/stubs/placement/v1"
)

// issue makes a certificate for localhost that is its own authority, and its key, in PEM.
func issue(t *testing.T) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
}

// serveTLS serves at an address with a certificate until stop is called; callers need the same one.
func serveTLS(t *testing.T, address string, certificate, key []byte) (target string, stop func()) {
	t.Helper()
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	callers := x509.NewCertPool()
	callers.AppendCertsFromPEM(certificate)
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: callers, ClientAuth: tls.RequireAndVerifyClientCert,
	})))
	placementv1.RegisterPlacementServiceServer(server, &script{})
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	return listener.Addr().String(), server.Stop
}

func TestRenewedCertificatesAndAuthoritiesAreUsed(t *testing.T) {
	folder := t.TempDir()
	files := client.TLSFiles{
		CA: filepath.Join(folder, "ca.crt"), Certificate: filepath.Join(folder, "tls.crt"),
		Key: filepath.Join(folder, "tls.key"), ServerName: "localhost",
	}
	write := func(name string, content []byte) {
		t.Helper()
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	renew := func() (certificate, key []byte) {
		certificate, key = issue(t)
		write(files.CA, certificate)
		write(files.Certificate, certificate)
		write(files.Key, key)
		return certificate, key
	}
	certificate, key := renew()
	target, stop := serveTLS(t, "localhost:0", certificate, key)
	c, err := client.New(target, client.WithTLS(files), client.WithTimeout(20*time.Second),
		client.WithBackoff(client.Backoff{Attempts: 100, Initial: 50 * time.Millisecond, Factor: 1}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	ask := func(when string) {
		t.Helper()
		if _, err := c.Compute(t.Context(), &placementv1.ComputePlacementRequest{}); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
	}
	ask("at first")

	stop()
	write(files.CA, nil)
	_, stop = serveTLS(t, target, certificate, key)
	ask("after half a renewal")

	stop()
	certificate, key = renew()
	_, stop = serveTLS(t, target, certificate, key)
	defer stop()
	ask("after a renewal")
}
