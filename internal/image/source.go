package image

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"

	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// source is where one image comes from.
type source struct {
	scheme, host, base string // base is what precedes /v2 in the path
	repository         string
	digest             digest.Digest
	tls                *tls.Config
	anonymous          bool
	embedded           bool
	login              *nodewire.RegistryPassword // nil: nobody's
}

// key names an image on this node by where it comes from and its digest. The
// source is part of it: who may pull from one repository has not shown that he may
// from another that holds the same content.
func key(img nodewire.Image) (string, error) {
	d := digest.Digest(img.Digest)
	if err := d.Validate(); err != nil {
		return "", fmt.Errorf("digest %q: %w", img.Digest, err)
	}
	ref := img.Ref
	if img.Embedded {
		ref = embeddedHost + "/" + ref
	}
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return "", fmt.Errorf("reference %q: %w", img.Ref, err)
	}
	return named.Name() + "@" + d.String(), nil
}

// embeddedHost stands for the embedded registry, whose address may change.
const embeddedHost = "embedded.invalid"

func (p *Puller) source(img nodewire.Image) (source, error) {
	s := source{digest: digest.Digest(img.Digest)} // valid, as key has seen
	if img.Embedded {
		s.embedded = true
		return s, p.embedded(&s, img.Ref)
	}
	named, err := reference.ParseNormalizedNamed(img.Ref)
	if err != nil {
		return s, fmt.Errorf("reference %q: %w", img.Ref, err)
	}
	s.repository, s.anonymous, s.scheme = reference.Path(named), true, "https"
	domain := reference.Domain(named)
	if s.host, err = docker.DefaultHost(domain); err != nil {
		return s, fmt.Errorf("registry %q: %w", domain, err)
	}
	if isLoopback(domain) {
		s.scheme = "http" // never leaves this machine
	}
	return s, nil
}

func (p *Puller) embedded(s *source, ref string) error {
	if p.cfg.Embedded == nil {
		return errors.New("this node has no embedded registry")
	}
	end, err := p.cfg.Embedded()
	if err != nil {
		return fmt.Errorf("find embedded registry: %w", err)
	}
	u, err := url.Parse(end.URL)
	if err != nil || u.Host == "" {
		return fmt.Errorf("embedded registry address %q is not a URL", end.URL)
	}
	if u.Scheme != "https" && !isLoopback(u.Host) {
		return fmt.Errorf("embedded registry address %q is not https", end.URL)
	}
	named, err := reference.ParseNormalizedNamed(embeddedHost + "/" + ref)
	if err != nil {
		return fmt.Errorf("reference %q: %w", ref, err)
	}
	s.scheme, s.host, s.base, s.tls = u.Scheme, u.Host, strings.TrimSuffix(u.Path, "/"), end.TLS
	s.repository = reference.Path(named)
	return nil
}

func isLoopback(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.IsLoopback()
}

func (s source) ref() string { return s.host + "/" + s.repository + "@" + s.digest.String() }

// resolver speaks to this source only, whatever the reference or a redirect says
// of other registries. It follows no environment proxy for loopback addresses.
func (s source) resolver() remotes.Resolver {
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 20 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:   15 * time.Second,
		ResponseHeaderTimeout: 40 * time.Second,
		MaxIdleConnsPerHost:   8,
		IdleConnTimeout:       30 * time.Second,
		TLSClientConfig:       s.tls,
		ForceAttemptHTTP2:     true,
	}
	c := &http.Client{Transport: homebound{transport, s}}
	host := docker.RegistryHost{
		Client: c, Host: s.host, Scheme: s.scheme, Path: s.base + "/v2",
		Capabilities: docker.HostCapabilityPull | docker.HostCapabilityResolve,
	}
	if s.anonymous {
		// Public registries hand out anonymous tokens on a 401.
		host.Authorizer = docker.NewDockerAuthorizer(s.authorizer(transport)...)
	}
	return docker.NewResolver(docker.ResolverOptions{
		Hosts: func(string) ([]docker.RegistryHost, error) { return []docker.RegistryHost{host}, nil },
	})
}
