// Package awskms is a key service on AWS KMS: it wraps data keys under a symmetric KMS
// key, with the encryption context as KMS's own.
//
// Servers list the ARNs of the keys that they may unwrap with, and nothing else is ever
// called, whatever a keyset says:
//
//	service, err := awskms.Open(ctx, "awskms:///arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab")
//
// A client of one's own goes into [New]. [Open] says what a URI may hold, and where
// region, endpoint and credentials come from.
//
// # The key
//
// A symmetric encryption key, in the region of the servers; rotating its material in
// KMS needs nothing here. An alias is for people: what is stored is always the ARN.
//
//	aws kms create-key --description "Echoseal data keys" --query KeyMetadata.Arn --output text
//	aws kms create-alias --alias-name alias/echoseal --target-key-id ARN
//
// For servers in several regions make it a multi-Region key (--multi-region) with a
// replica in each (aws kms replicate-key). A server that lists its replica's ARN
// unwraps with that what any other replica has wrapped: id, account and partition are
// the same, and listing the replica is the permission to use it.
//
// # Permissions
//
// A server unwraps, and only for its keyset. This is its IAM policy; the key policy has
// to let IAM policies of the account in, as the default one does:
//
//	{
//	  "Version": "2012-10-17",
//	  "Statement": [{
//	    "Effect": "Allow",
//	    "Action": "kms:Decrypt",
//	    "Resource": "ARN",
//	    "Condition": {"StringEquals": {"kms:EncryptionContext:echoseal:keyset": "NAME OF THE KEYSET"}}
//	  }]
//	}
//
// Whoever changes the keyset has these actions, under the same condition, except for
// kms:DescribeKey, which has no encryption context and stands in a statement of its own:
//
//   - kms:GenerateDataKey makes a data key, and kms:Decrypt tries it out
//   - kms:Encrypt wraps a key that was there before, or comes from another key service
//   - kms:ReEncryptFrom on the old key and kms:ReEncryptTo on the new one wrap anew
//   - kms:DescribeKey tells states, and looks aliases and key ids up
//
// # Errors
//
// Every error of a call is a [keyset.KeyError], which names key, operation and remedy
// and holds what the SDK said. By kind:
//
//   - not_found: no such key in this account and region, or it has been deleted for good.
//   - disabled: aws kms enable-key.
//   - pending_deletion: aws kms cancel-key-deletion, then enable-key, before the date that
//     aws kms describe-key prints.
//   - destroyed: imported key material is gone. Import the very same again.
//   - denied: the permission that the operation names is missing, or the credentials are
//     missing, wrong or expired. Where KMS is right about a signature, look at the clock.
//   - throttled, unavailable: tried up to 6 times, with jittered backoff, as long as the
//     context allows. If it was the search for credentials that took the time, the
//     error says "finding credentials".
//   - context_mismatch: KMS gives one answer, without a word, for an encryption context
//     that does not match and for a damaged ciphertext: another keyset's name, or an
//     entry that was moved or edited.
//   - wrong_key: the ciphertext was made under another key, another key answered, or the
//     key is not listed or no symmetric encryption key.
//   - corrupt: what cannot be a ciphertext of KMS, by its length alone.
//
// # Secrets
//
// Calls made here write neither bodies nor request headers to the SDK's wire log,
// whatever [aws.ClientLogMode] the client has: they hold data keys, and the session
// token. A data key that is refused is zeroed. The SDK reads responses into buffers of
// its own, which it uses again and does not zero.
package awskms
