package gcpkms
