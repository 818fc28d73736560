package gateway

import (
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// MainPort is where a notebook's server listens; its host needs no number.
const MainPort = 8888

// Apps says where web servers inside instances are reached. The zero value: they
// are not.
type Apps struct {
	// Domain is unrelated to the console's, so that no cookie of one reaches the
	// other; every port of every instance is a host of its own below it.
	Domain string
	// Console is where browsers find the console; its scheme and port are those of
	// the hosts below Domain too, since one listener serves both.
	Console *url.URL
}

// Host is the name of an instance's port: <26 characters>[-port].<domain>.
func (a Apps) Host(instance cloud.InstanceID, port int) string {
	label := strings.TrimPrefix(instance.String(), "inst_")
	if port != MainPort {
		label += "-" + strconv.Itoa(port)
	}
	return label + "." + a.Domain
}

// Authority is that name with the port to connect to, where it isn't the usual
// one.
func (a Apps) Authority(instance cloud.InstanceID, port int) string {
	host := a.Host(instance, port)
	if p := a.Console.Port(); p != "" {
		return net.JoinHostPort(host, p)
	}
	return host
}

// Owns reports whether a request's Host is below the domain, whatever else is
// wrong with it: none of those is ever answered by the console.
func (a Apps) Owns(host string) bool {
	name := strings.ToLower(strings.TrimRight(hostname(host), "."))
	return a.Domain != "" && (name == a.Domain || strings.HasSuffix(name, "."+a.Domain))
}

// Parse reads an instance's port from a Host; only the one spelling that Host
// gives is one.
func (a Apps) Parse(host string) (instance cloud.InstanceID, port int, ok bool) {
	label, ok := strings.CutSuffix(strings.ToLower(hostname(host)), "."+a.Domain)
	if !ok {
		return instance, 0, false
	}
	text, number, has := strings.Cut(label, "-")
	port = MainPort
	if has {
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || n > 65535 {
			return instance, 0, false
		}
		port = n
	}
	if instance.UnmarshalText([]byte("inst_"+text)) != nil || a.Host(instance, port) != label+"."+a.Domain {
		return cloud.InstanceID{}, 0, false
	}
	return instance, port, true
}

func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return host
}
