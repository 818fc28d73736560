package cloud

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// RegistryCredential opens a registry that is not the embedded one, for the
// images of a project. Its password is nowhere in it.
type RegistryCredential struct {
	ID        CredentialID
	ProjectID ProjectID
	Host      string
	Username  string
	CreatedAt time.Time
}

var registryHostForm = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*(:[0-9]{1,5})?$`)

// RegistryHost gives a registry's one name: lower case, no scheme or path, and
// Docker Hub's several names as docker.io. False: it is none.
func RegistryHost(text string) (string, bool) {
	host := strings.ToLower(strings.TrimSpace(text))
	host = strings.TrimPrefix(strings.TrimPrefix(host, "https://"), "http://")
	host = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(host, "/"), "/v1"), "/v2")
	host = strings.TrimSuffix(host, ":443")
	switch host {
	case "docker.io", "index.docker.io", "registry-1.docker.io", "registry.docker.io", "hub.docker.com", "docker.com", "www.docker.io":
		return "docker.io", true
	}
	if _, port, ok := strings.Cut(host, ":"); ok {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return "", false
		}
	}
	// A name without a dot or a port is a repository's first part, never a host.
	if len(host) > 255 || !registryHostForm.MatchString(host) || !strings.ContainsAny(host, ".:") && host != "localhost" {
		return "", false
	}
	return host, true
}
