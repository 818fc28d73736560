package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// config is what the last login left.
type config struct {
	URL       string `json:"url"`
	Token     string `json:"token"`
	TokenName string `json:"token_name,omitempty"` // made by login, so revoked by logout
	Email     string `json:"email,omitempty"`
	Project   string `json:"project,omitempty"`
}

// ConfigPath is where the configuration lies for a user.
func ConfigPath() string {
	if dir := os.Getenv("XDG_CONFIG_HOME"); dir != "" {
		return filepath.Join(dir, "tenon", "config.json")
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "tenon", "config.json")
}

// beside names a file in the configuration's folder; empty where there is none.
func (a *app) beside(name string) string {
	if a.Config == "" {
		return ""
	}
	return filepath.Join(filepath.Dir(a.Config), name)
}

func readConfig(path string) (config, error) {
	var c config
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || path == "" {
		return c, nil
	}
	if err != nil {
		return c, fmt.Errorf("read configuration: %w", err)
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return c, fmt.Errorf("%s is damaged (%w): remove it and sign in again with `tenon login`", path, err)
	}
	return c, nil
}

func (c config) write(path string) error {
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("encode configuration: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make configuration folder: %w", err)
	}
	tmp := path + ".new"
	_ = os.Remove(tmp)
	if err := os.WriteFile(tmp, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	return nil
}

// cleanURL accepts what people type: 127.0.0.1:7480, https://cloud.example/.
func cleanURL(s string) (string, error) {
	if !strings.Contains(s, "://") {
		scheme := "https://"
		if host := strings.Split(s, ":")[0]; host == "localhost" || strings.HasPrefix(host, "127.") {
			scheme = "http://"
		}
		s = scheme + s
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("%q is not the address of a cloud: it looks like https://cloud.example or 127.0.0.1:7480", s)
	}
	return u.Scheme + "://" + u.Host + strings.TrimRight(u.Path, "/"), nil
}
