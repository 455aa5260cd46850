/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shortens the index of a rotation (session/rotation.h): lines of segments that are gone leave it.
 * Blocks; for a disk's thread: allocates nothing.
 *
 *     {"shortened":2,"segments":2040,"losses":7    }     how often, and what all that left add up
 * to
 *     {"segment":2041,"file":"boot.pftrace.002041", ...
 *
 * The first line has PFL_DISK_INDEX_HEAD_BYTES, and is another one each time: by it a reader sees
 * that its place in the file is none any more.
 */
#ifndef PFL_SERVICE_DISK_INDEX_H
#define PFL_SERVICE_DISK_INDEX_H

#define PFL_DISK_INDEX_HEAD_BYTES 104u

/*
 * The file of `*fd`, which has that name, ending in ".index", in the folder: another file takes its
 * place by a rename, and its descriptor that of `*fd`, at its end. The last line stays in any case.
 * 0, also if no line had to leave; or an errno: the file is as it was. ESTALE: another file has its
 * name.
 */
int pfl_disk_index_shorten(int folder, const char *name, int *fd);

#endif
