// Package etcdstore keeps a keyset document, and the reports of the instances that use
// it, in etcd 3.4 or newer.
//
//	store, err := etcdstore.Open(ctx, "etcds://etcd-1:2379,etcd-2:2379/echoseal/billing")
//
// A client of one's own goes into [New] and [NewRegistry]. One URI names both: the
// document is the value of the key, and each instance's report that of
//
//	KEY/instances/ID
//
// # The document
//
// [Store] reads linearizably and writes in a transaction that compares the modification
// revision, which is also the version. It never hangs on a lease: if somebody has put it
// under one by other means, it is read as long as it is there, and the next [Store.Save]
// takes it off.
//
// [Store.Watch] resumes by itself where it was after a lost connection, a restarted
// server or a new leader, with a new token if a password is set, and starts afresh if
// that revision was compacted meanwhile.
//
// # A cluster that was restored
//
// A cluster that comes from a snapshot counts its revisions on from there, so that it can
// give a version to a second document: a writer that had read the first one before may
// then replace the second, and is not told. A watch that had seen later revisions sees
// nothing until the cluster has caught up with them, and servers follow by polling alone.
// So restore with a step that is larger than all that was written since the snapshot, and
// with the revisions before it marked as compacted:
//
//	etcdutl snapshot restore --bump-revision 1000000000 --mark-compacted … snapshot.db
//
// If it was restored without: end every command that was changing the keyset and run it
// again, which reads anew, and start the servers again, which watch anew. In either case
// the document may be older than what servers hold: keytool status tells.
//
// # The registry
//
// [Registry] keeps every report under a lease of its own, granted anew each time and
// at least as long as asked for. A keep-alive of the old one would be cheaper for the
// servers without authentication, but dearer with it: the client logs in for each.
//
// # Permissions
//
// With the roles that etcd has, for the key echoseal/billing. A server reads the document
// and writes its report:
//
//	etcdctl role add billing-server
//	etcdctl role grant-permission billing-server read echoseal/billing
//	etcdctl role grant-permission --prefix billing-server readwrite echoseal/billing/instances/
//
// Whoever changes the keyset has:
//
//	etcdctl role add billing-operator
//	etcdctl role grant-permission billing-operator readwrite echoseal/billing
//	etcdctl role grant-permission --prefix billing-operator readwrite echoseal/billing/instances/
//
// The last line may say read, if that person need not forget instances. A server can
// change or drop the report of another one, but not forge it: whoever collects checks
// its MAC. So can nobody make a keyset who can write the document only; but whoever can
// delete it keeps servers from starting.
//
// # Errors
//
// They name the place, the operation and what to do, and never a credential. Those of
// the context and of the server, as the package rpctypes of the vendor has them, are
// found by errors.Is, and so is [net.ErrClosed] after a Close. The vendor's client tries
// again what it may, for as long as the context lets it, so each call needs a deadline.
//
// The client of [Open] logs nothing.
package etcdstore
