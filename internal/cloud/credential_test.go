package cloud

import "testing"

func TestARegistryHasOneName(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"docker.io": "docker.io", "index.docker.io": "docker.io", "https://index.docker.io/v1/": "docker.io", "Registry-1.Docker.io": "docker.io",
		"GHCR.io": "ghcr.io", "https://ghcr.io/": "ghcr.io", "ghcr.io:443": "ghcr.io", "reg.example:5000": "reg.example:5000", "127.0.0.1:5000": "127.0.0.1:5000",
		"localhost": "localhost", "localhost:5000": "localhost:5000", " ghcr.io ": "ghcr.io",
		"": "", "library": "", "ghcr.io/acme": "", "user@ghcr.io": "", "ghcr.io:0": "", "ghcr.io:70000": "", "-x.io": "", "a b.io": "", "gh..io": "",
	} {
		got, ok := RegistryHost(given)
		if got != want || ok != (want != "") {
			t.Errorf("%q is %q, %v; want %q", given, got, ok, want)
		}
	}
}
