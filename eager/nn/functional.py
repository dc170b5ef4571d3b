"""The functions of the layers, by PyTorch's names; all of them are `eager.functional`'s."""
