package tracereport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"
)

// CheckAddress tells what is wrong with an address for Listen, without opening it.
func CheckAddress(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return fmt.Errorf("%q: give HOST:PORT, or :PORT for this machine only, with a port up to 65535", address)
	}
	return nil
}

// Listen opens the address where metrics are to be had: "HOST:PORT", or ":PORT" for
// this machine only. Port 0 is a free one.
func Listen(address string) (net.Listener, error) {
	if err := CheckAddress(address); err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(address)
	if host == "" {
		host = "127.0.0.1"
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		err = fmt.Errorf("%s: the port is in use: choose another, or 0 for a free one: %w", address, syscall.EADDRINUSE)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		err = fmt.Errorf("%s: this machine has no such address: 'ip addr' shows those that it has: %w", address, syscall.EADDRNOTAVAIL)
	case errors.Is(err, syscall.EACCES):
		err = fmt.Errorf("%s: ports below 1024 take CAP_NET_BIND_SERVICE: choose another: %w", address, syscall.EACCES)
	}
	return l, err
}

// Serve answers scrapes at /metrics until the context ends, which ends it without an
// error; it closes the listener.
func Serve(ctx context.Context, l net.Listener, c *Collector) error {
	mux := http.NewServeMux()
	// A scrape that takes longer is one that nobody waits for: Prometheus gives up after
	// 10 s if it is not told otherwise.
	mux.Handle("GET /metrics", http.TimeoutHandler(atMost(4, c), 10*time.Second, "what was counted could not be read within 10 s\n"))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprintln(w, "peerdirect trace: metrics for Prometheus are at /metrics")
	})
	server := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 16 << 10,
	}
	stop := context.AfterFunc(ctx, func() {
		soon, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if server.Shutdown(soon) != nil {
			server.Close()
		}
	})
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// atMost refuses requests while so many are being answered.
func atMost(most int, h http.Handler) http.Handler {
	places := make(chan struct{}, most)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
			h.ServeHTTP(w, r)
		default:
			http.Error(w, fmt.Sprintf("%d scrapes are being answered: try again later", most), http.StatusServiceUnavailable)
		}
	})
}
