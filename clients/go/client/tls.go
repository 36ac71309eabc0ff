package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"

	"google.golang.org/grpc/credentials"
)

// TLSFiles are PEM files. They are read anew for each connection: certificates, and those of
// authorities, are renewed while programs run.
type TLSFiles struct {
	// CA holds the authorities that sign the service's certificate; empty means the system's.
	CA string
	// Certificate and Key identify the client (mutual TLS); both or none.
	Certificate, Key string
	// ServerName is expected in the service's certificate; empty means the host of the target.
	ServerName string
}

func (f TLSFiles) config() (*tls.Config, error) {
	config := &tls.Config{ServerName: f.ServerName, MinVersion: tls.VersionTLS12}
	if f.CA != "" {
		content, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(content) {
			return nil, fmt.Errorf("client: %s holds no certificate", f.CA)
		}
	}
	if (f.Certificate == "") != (f.Key == "") {
		return nil, errors.New("client: certificate and key belong together")
	}
	if f.Certificate != "" {
		pair, err := tls.LoadX509KeyPair(f.Certificate, f.Key)
		if err != nil {
			return nil, fmt.Errorf("client: %s and %s: %w", f.Certificate, f.Key, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// renewed are credentials from files, as they are when a connection is made.
type renewed struct {
	credentials.TransportCredentials
	files TLSFiles
	// last is what the files held when they were whole: half a renewal changes nothing.
	last *atomic.Pointer[tls.Config]
}

func newRenewed(files TLSFiles) (renewed, error) {
	config, err := files.config()
	if err != nil {
		return renewed{}, err
	}
	last := &atomic.Pointer[tls.Config]{}
	last.Store(config)
	return renewed{credentials.NewTLS(config), files, last}, nil
}

// ClientHandshake reads the files and makes a connection.
func (r renewed) ClientHandshake(
	ctx context.Context, authority string, connection net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	if config, err := r.files.config(); err == nil {
		r.last.Store(config)
	}
	return credentials.NewTLS(r.last.Load()).ClientHandshake(ctx, authority, connection)
}

// Clone returns credentials from the same files.
func (r renewed) Clone() credentials.TransportCredentials {
	return renewed{r.TransportCredentials.Clone(), r.files, r.last}
}
