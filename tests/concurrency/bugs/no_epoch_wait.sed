# epoch.c: a writer that has replaced an object does not wait for the readers.
/^bool ration_epoch_wait(/,/^{$/ s|^{$|{ /* seeded */\
    if (epoch != NULL)\
        return true;\
|
