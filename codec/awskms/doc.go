package awskms
