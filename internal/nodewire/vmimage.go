package nodewire

// A VM's image is an OCI artifact of one layer: a qcow2 file as it is.
const (
	VMImageArtifactType = "application/vnd.tenon.vm.image.v1"
	VMDiskMediaType     = "application/vnd.tenon.vm.disk.v1+qcow2"
)
