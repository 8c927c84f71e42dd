# memory_op.c: a spin lock in the table, around each op.
s|^ration_status ration_memory_begin(|static ration_status begin_alone(|
$a\
\
ration_status ration_memory_begin(struct ration_store *store, struct ration_op *op) /* seeded */\
{\
    uint64_t *lock = &((struct ration_memory *)store)->block->nonces[0].unused[0];\
    ration_status status;\
\
    while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE) != 0)\
        ;\
    status = begin_alone(store, op);\
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);\
    return status;\
}
