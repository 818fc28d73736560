package main

import (
	"net"
	"net/url"
	"regexp"
	"strings"
)

var domainForm = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// localApps is the domain of a cloud that only this machine reaches: browsers
// find every name below localhost here, and take it for secure.
const localApps = "apps.localhost"

// readApps settles where browsers find the console and the web servers of
// instances. Both are behind one listener, told apart by the host's name.
func (c *config) readApps(getenv func(string) string, bad func(string, ...any)) {
	scheme := "http"
	if c.TLSCertFile != "" || c.InsecureHTTP {
		scheme = "https"
	}
	c.ConsoleURL = &url.URL{Scheme: scheme, Host: c.Listen}
	given := getenv("TENON_CONSOLE_URL")
	if given != "" {
		u, err := url.Parse(given)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "" {
			bad("TENON_CONSOLE_URL is %q: it looks like https://cloud.example", given)
			return
		}
		u.Path = ""
		c.ConsoleURL = u
	}
	c.AppsDomain = strings.ToLower(strings.Trim(getenv("TENON_APPS_DOMAIN"), "."))
	switch {
	case c.AppsDomain == "" && loopback(c.Listen):
		c.AppsDomain = localApps
	case c.AppsDomain == "":
		return
	case len(c.AppsDomain) > 200 || !domainForm.MatchString(c.AppsDomain) || net.ParseIP(c.AppsDomain) != nil:
		bad("TENON_APPS_DOMAIN is %q: it looks like tenon-apps.example", c.AppsDomain)
		return
	case given == "" && !loopback(c.Listen):
		bad("TENON_APPS_DOMAIN is set and TENON_CONSOLE_URL is not: web servers of instances send browsers back there")
	}
	// Cookies can be set for a domain and everything below it, so neither may be
	// below the other.
	console := strings.ToLower(c.ConsoleURL.Hostname())
	if console != "localhost" && (console == c.AppsDomain || strings.HasSuffix(console, "."+c.AppsDomain) || strings.HasSuffix(c.AppsDomain, "."+console)) {
		bad("TENON_APPS_DOMAIN is %s and the console is at %s: an app could set cookies for the console; take a domain of its own", c.AppsDomain, console)
	}
}

// readPeer settles the door for other replicas.
func (c *config) readPeer(getenv func(string) string, bad func(string, ...any)) {
	c.PeerListen, c.PeerAddress = getenv("TENON_PEER_LISTEN"), getenv("TENON_PEER_ADDRESS")
	if c.PeerListen == "" {
		if c.PeerAddress != "" {
			bad("TENON_PEER_ADDRESS is set and TENON_PEER_LISTEN is not")
		}
		return
	}
	host, port, err := net.SplitHostPort(c.PeerListen)
	if err != nil || port == "" {
		bad("TENON_PEER_LISTEN is %q: it looks like 10.0.0.1:7482", c.PeerListen)
		return
	}
	ip := net.ParseIP(host)
	switch {
	case c.PeerAddress == "" && (host == "" || ip != nil && ip.IsUnspecified()):
		bad("TENON_PEER_LISTEN is %s: say in TENON_PEER_ADDRESS at which address the other replicas reach this one", c.PeerListen)
	case c.PeerAddress == "":
		c.PeerAddress = c.PeerListen
	default:
		if h, p, err := net.SplitHostPort(c.PeerAddress); err != nil || h == "" || p == "" {
			bad("TENON_PEER_ADDRESS is %q: it looks like 10.0.0.1:7482", c.PeerAddress)
		}
	}
}
