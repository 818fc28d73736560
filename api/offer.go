package api

import "time"

// Flavor is a named shape that operators offer.
type Flavor struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description"`
	Shape
	PricePerHourMicros *int64       `json:"price_per_hour_micros,omitempty" doc:"While it runs; absent when a price is missing"`
	Currency           string       `json:"currency,omitempty"`
	FreeNow            int          `json:"free_now" doc:"How many fit now in the ordinary pools, of the kind of instance of which most do"`
	FreeSimulatedNow   int          `json:"free_simulated_now" doc:"How many fit now in simulated pools, which are counted apart"`
	Served             bool         `json:"served" doc:"An ordinary pool has a node that could take it, were it empty; false: it would wait for ever"`
	ServedSimulated    bool         `json:"served_simulated" doc:"The same of simulated pools"`
	Kinds              []FlavorKind `json:"kinds" doc:"The kinds of instances that can have it, and how many of each fit"`
	CreatedAt          time.Time    `json:"created_at"`
}

// FlavorKind is what is there of a flavor for one kind of instance.
type FlavorKind struct {
	Kind             string `json:"kind" enum:"container,notebook,vm"`
	FreeNow          int    `json:"free_now"`
	FreeSimulatedNow int    `json:"free_simulated_now"`
	Served           bool   `json:"served"`
	ServedSimulated  bool   `json:"served_simulated"`
}

// FlavorCreate offers a shape.
type FlavorCreate struct {
	Name        string `json:"name" minLength:"1" maxLength:"63" pattern:"^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$" patternDescription:"lower-case letters, digits and hyphens, beginning with a letter and not ending with a hyphen"`
	Description string `json:"description,omitempty" maxLength:"500"`
	GPUCount    int    `json:"gpu_count,omitempty" minimum:"0" maximum:"16"`
	GPUModel    string `json:"gpu_model,omitempty" maxLength:"100" doc:"Key or name of a model: h100-80gb"`
	GPUMode     string `json:"gpu_mode,omitempty" enum:"whole,mig,shared,vgpu"`
	GPUProfile  string `json:"gpu_profile,omitempty" maxLength:"40" doc:"For mig and MIG-backed vgpu: a class such as 1g, or the driver's spelling such as 1g.10gb; share4 or vgpu8 for a fourth or an eighth of a card"`
	VCPU        int    `json:"vcpu" minimum:"1" maximum:"1024"`
	MemoryMiB   int64  `json:"memory_mib" minimum:"64" maximum:"16777216"`
	DiskMiB     int64  `json:"disk_mib" minimum:"64" maximum:"16777216"`
}

// Image is something that an instance can be made from.
type Image struct {
	ID          string    `json:"id"`
	Name        string    `json:"name"`
	Kind        string    `json:"kind" enum:"container,vm,notebook"`
	Ref         string    `json:"ref" doc:"Repository and tag; without a registry's host it is in the embedded registry"`
	Digest      string    `json:"digest" doc:"Of the manifest when it was added; what instances run"`
	SizeBytes   int64     `json:"size_bytes"`
	Description string    `json:"description"`
	Offered     bool      `json:"offered" doc:"By the operator to everyone; false: your organisation's own"`
	CreatedAt   time.Time `json:"created_at"`
}

// ImageCreate adds an image that lies in a registry.
type ImageCreate struct {
	Name        string `json:"name" minLength:"1" maxLength:"63" pattern:"^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$" patternDescription:"lower-case letters, digits and hyphens, beginning with a letter and not ending with a hyphen"`
	Kind        string `json:"kind,omitempty" enum:"container,vm,notebook" default:"container"`
	Ref         string `json:"ref" minLength:"1" maxLength:"500" doc:"Repository with a tag or digest: docker.io/library/python:3.13, or acme/vision/train:v2 in the embedded registry"`
	Description string `json:"description,omitempty" maxLength:"500"`
	Offered     bool   `json:"offered,omitempty" doc:"Operators: offer it to everyone"`
	Project     string `json:"project,omitempty" maxLength:"100" doc:"Name or id: read and pull it with that project's credential for its registry"`
}

// Price is one version of what something costs. A version that has started
// never changes.
type Price struct {
	ID            string    `json:"id"`
	SKU           string    `json:"sku" doc:"gpu/<model>/<profile> by device-hour, vcpu by vCPU-hour, memory_gib by GiB-hour"`
	Name          string    `json:"name" doc:"For people"`
	Unit          string    `json:"unit" example:"GPU hours"`
	Currency      string    `json:"currency"`
	MicrosPerHour int64     `json:"micros_per_hour"`
	StartsAt      time.Time `json:"starts_at"`
	Current       bool      `json:"current" doc:"It is the one that counts now"`
}

// PriceCreate adds a version of a price.
type PriceCreate struct {
	SKU           string     `json:"sku" maxLength:"120" pattern:"^(gpu/[a-z0-9-]+/[a-z0-9+.]+|vcpu|memory_gib)$" patternDescription:"gpu/<model>/<profile>, vcpu or memory_gib"`
	Currency      string     `json:"currency,omitempty" pattern:"^[A-Z]{3}$" patternDescription:"three capital letters" default:"USD"`
	MicrosPerHour int64      `json:"micros_per_hour" minimum:"0" maximum:"1000000000000"`
	StartsAt      *time.Time `json:"starts_at,omitempty" doc:"Now when absent; never in the past"`
}
