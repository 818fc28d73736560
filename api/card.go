package api

import "time"

// GPUUpdate says what a card is to be. What is left out stays as it is wished.
type GPUUpdate struct {
	Mode     string         `json:"mode,omitempty" enum:"whole,mig,shared,vgpu" doc:"How it is divided"`
	Layout   *[]LayoutEntry `json:"layout,omitempty" maxItems:"16" doc:"Fixed slices of a card that MIG cuts; an empty list: slices are made as they are placed"`
	Shares   *int           `json:"shares,omitempty" doc:"Of a shared card: how many, 2 to 8"`
	VGPUType *string        `json:"vgpu_type,omitempty" maxLength:"100" doc:"Of a card in mode vgpu: one of its vgpu_types; empty: MIG-backed"`
}

// LayoutEntry is slices of one profile: a number of them anywhere, or one at an
// exact place.
type LayoutEntry struct {
	Profile   string `json:"profile" maxLength:"100" doc:"In any spelling that is known for the card: 1g.10gb, 3g.39gb, 1g+me"`
	Count     *int   `json:"count,omitempty" doc:"How many; 1 when left out"`
	SlotStart *int   `json:"slot_start,omitempty" doc:"Exactly there; anywhere when left out"`
}

// NamedGPUUpdate is GPUUpdate for one of several cards of a node.
type NamedGPUUpdate struct {
	GPU      string `json:"gpu" minLength:"1" maxLength:"100" doc:"Id, UUID or PCI address"`
	Revision *int64 `json:"revision,omitempty" minimum:"0" doc:"That it must still have, as If-Match of one card; otherwise its problem is card_changed"`
	GPUUpdate
}

// NodeGPUsUpdate says what several cards of a node are to be, each by itself.
type NodeGPUsUpdate struct {
	GPUs []NamedGPUUpdate `json:"gpus" minItems:"1" maxItems:"64"`
}

// GPUUpdateResult is what became of one of several.
type GPUUpdateResult struct {
	GPU     string   `json:"gpu" doc:"As it was named in the request"`
	Applied bool     `json:"applied" doc:"Its node has been told, or it is so already"`
	Card    *GPU     `json:"card,omitempty"`
	Problem *Problem `json:"problem,omitempty" doc:"Why it is unchanged"`
}

// GPUWish is what an operator wants a card to be.
type GPUWish struct {
	Mode     string     `json:"mode" enum:"whole,mig,shared,vgpu"`
	Layout   []GPUPlace `json:"layout" doc:"Its fixed slices; empty: made as they are placed"`
	Shares   int        `json:"shares,omitempty"`
	VGPUType string     `json:"vgpu_type,omitempty"`
	WishedAt *time.Time `json:"wished_at,omitempty"`
}

// GPUPlace is a slice at an exact place.
type GPUPlace struct {
	Profile     string `json:"profile"`
	ProfileName string `json:"profile_name"`
	SlotStart   int    `json:"slot_start"`
	SlotEnd     int    `json:"slot_end" doc:"One past the last"`
}

// GPUProfile is a MIG profile of a card's model.
type GPUProfile struct {
	Profile     string `json:"profile"`
	ProfileName string `json:"profile_name"`
	Slots       int    `json:"slots" doc:"Memory slots that one takes"`
	Max         int    `json:"max" doc:"At most so many on one card"`
}

// GPUSlice is a MIG instance that exists on a card.
type GPUSlice struct {
	GPUPlace
	UUID      string `json:"uuid"`
	Foreign   bool   `json:"foreign" doc:"The platform did not make it: it is shown and never touched"`
	MemoryMiB int64  `json:"memory_mib,omitempty"`
}

// VGPUType is a virtual GPU type that a card's host driver offers.
type VGPUType struct {
	Name      string `json:"name"`
	ID        string `json:"id"`
	Available int    `json:"available" doc:"How many can be made now"`
	MemoryMiB int64  `json:"memory_mib,omitempty"`
}

// GPUIncident is one fault of a card, however many signals told of it.
type GPUIncident struct {
	ID         string    `json:"id"`
	Kind       string    `json:"kind" doc:"xid, fell_off_bus, row_remap_pending, row_remap_failure, missing_slice, reset_failed"`
	XID        int       `json:"xid,omitempty" doc:"NVIDIA's number"`
	Action     string    `json:"action" enum:"none,needs_reset,out" doc:"none: an application's fault, the card stays; needs_reset: nothing new before a reset; out: the card is unhealthy"`
	Message    string    `json:"message"`
	InstanceID string    `json:"instance_id,omitempty" doc:"Whose program it was, where that is known"`
	At         time.Time `json:"at"`
	ReceivedAt time.Time `json:"received_at"`
}

// GPUStay is one hold of some of a card.
type GPUStay struct {
	ID           string     `json:"id"`
	GPUID        string     `json:"gpu_id"`
	InstanceID   string     `json:"instance_id"`
	Instance     string     `json:"instance" doc:"Its name"`
	Organisation string     `json:"organisation"`
	Epoch        int64      `json:"epoch" doc:"Of the instance's run"`
	Mode         string     `json:"mode"`
	Profile      string     `json:"profile"`
	ProfileName  string     `json:"profile_name"`
	SlotStart    int        `json:"slot_start"`
	SlotEnd      int        `json:"slot_end" doc:"One past the last"`
	From         time.Time  `json:"from"`
	To           *time.Time `json:"to,omitempty" doc:"Absent while it is held"`
}

// GPUFault is a fault for a simulated card to show.
type GPUFault struct {
	XID int `json:"xid" minimum:"1" maximum:"1000" doc:"NVIDIA's number: 31 is a program's fault, 48 waits for a reset, 79 takes the card out" example:"79"`
}

// ExcludedDevice is a PCI function that looks like a GPU and is not offered.
type ExcludedDevice struct {
	PCIAddress string `json:"pci_address"`
	Vendor     string `json:"vendor"`
	Device     string `json:"device"`
	Reason     string `json:"reason"`
}
