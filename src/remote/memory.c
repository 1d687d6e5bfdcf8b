/*
 * libssh2 allocates through here. Reasons: a node must not be able to make this process grow
 * without end (libssh2 queues packets that nobody asked for), private key bytes must be wiped
 * wherever libssh2 copied them, and a handshake that is cut in the middle leaves blocks behind in
 * libssh2 1.10, which over months of nodes that come and go would add up.
 */
#include <stdlib.h>
#include <string.h>

#include "remote/internal.h"

struct ssh_block {
    struct ssh_block *next, *prev;
    size_t size;
    size_t unused; /* keeps the data aligned to 16 bytes */
};

static void *block_alloc(size_t size, void **abstract)
{
    struct ssh_memory *m = *abstract;
    if (size > MEMORY_MAX || m->in_use + size > MEMORY_MAX)
        return NULL;
    struct ssh_block *b = malloc(sizeof *b + size);
    if (b == NULL)
        return NULL;
    *b = (struct ssh_block){.next = m->blocks, .size = size};
    if (m->blocks != NULL)
        m->blocks->prev = b;
    m->blocks = b;
    m->in_use += size;
    return b + 1;
}

static void block_free(void *data, void **abstract)
{
    struct ssh_memory *m = *abstract;
    if (data == NULL)
        return;
    struct ssh_block *b = (struct ssh_block *)data - 1;
    *(b->prev != NULL ? &b->prev->next : &m->blocks) = b->next;
    if (b->next != NULL)
        b->next->prev = b->prev;
    m->in_use -= b->size;
    explicit_bzero(b, sizeof *b + b->size);
    free(b);
}

static void *block_realloc(void *data, size_t size, void **abstract)
{
    if (data == NULL)
        return block_alloc(size, abstract);
    size_t old = ((struct ssh_block *)data - 1)->size;
    void *copy = block_alloc(size, abstract);
    if (copy == NULL)
        return NULL;
    memcpy(copy, data, old < size ? old : size);
    block_free(data, abstract);
    return copy;
}

LIBSSH2_SESSION *ssh_memory_session(struct ssh_memory *m)
{
    *m = (struct ssh_memory){0};
    return libssh2_session_init_ex(block_alloc, block_free, block_realloc, m);
}

void ssh_memory_done(struct ssh_memory *m)
{
    void *abstract = m;
    while (m->blocks != NULL)
        block_free(m->blocks + 1, &abstract);
}
